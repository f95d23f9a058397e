const PART = String.raw`\p{Lu}[\p{L}'’-]{0,30}\p{L}`;
const PARTICLE = 'van der|van den|van|von|de la|de|del|di|da|dos|El|Al|Ní|Ó';
const INITIAL = String.raw`\p{Lu}\.`;
const NAME = String.raw`(?:${INITIAL}\s?){0,2}${PART}(?:\s(?:(?:${PARTICLE})\s)?(?:${PART}|${INITIAL})){0,3}`;

/** Words that begin with a capital at the end of a message and are no name. */
const NO_NAME =
  /^(?:thanks?|thank you|please|order|regards|best|cheers|merci|grazie|danke|gracias|hello|hi|hallo|greetings|all|date|total|the|it|he|she|they|we|yes|no|ok|today|urgent|call|tel|phone|usd|eur|gbp)\b/i;

const INTRODUCED = new RegExp(
  String.raw`(?:my name is|i am|i'm|this is|ich bin|mein name ist|je m'appelle|me llamo|mi chiamo|ik ben|signed,?|contact|(?:customer|caller|name)\s?:?)\s(?:(?:Mr|Mrs|Ms|Dr)\.?\s)?(${NAME})`,
  'giu',
);
const TITLED = new RegExp(
  String.raw`\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Herr|Frau|Mme)\.?\s(?:em\.\s)?(${NAME})`,
  'u',
);
const SIGNED = new RegExp(
  String.raw`(?:^|[\n.!?,:–]\s?|[Rr]egards,?\s|[Tt]hanks,?\s|[Cc]heers,?\s|[Ww]ishes,?\s|[Gg]ru(?:ß|et),?\s)(?:Dr\. |Prof\. |Mag\. )?(${NAME})$`,
  'u',
);
const STRICT = new RegExp(`^${NAME}`, 'u');
const INSIDE = new RegExp(String.raw`(?<=[\p{Ll},] )${PART} ${PART}\b`, 'u');

/** Telephone numbers, addresses and the like behind a signature. */
const CONTACT =
  /(?:[\s,(]*(?:[\w.+-]{1,64}@[\w.-]{1,80}|(?:Tel|Phone|mobil|number)[.:]?|[+(]?\d[\d\s().-]{5,20}))+[\s.]*$/i;

/** The name of the person who writes or is written about, or `null`. */
export function personIn(text: string): string | null {
  for (const [, found = ''] of text.matchAll(INTRODUCED)) {
    // The flag that finds "My name is" also lets small letters pass for capitals.
    const name = STRICT.exec(found)?.[0];
    if (name !== undefined && !NO_NAME.test(name)) return name;
  }
  const titled = TITLED.exec(text)?.[1];
  if (titled !== undefined) return titled;
  const end = text.slice(-300).replace(CONTACT, '').trim();
  const signed = SIGNED.exec(end)?.[1];
  if (signed !== undefined && !NO_NAME.test(signed)) return signed;
  return INSIDE.exec(text)?.[0] ?? null;
}
