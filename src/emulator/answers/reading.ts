/** A prompt as a model would read it: what to do, on which text, and after which cue the answer begins. */
export interface PromptParts {
  /** What to do, cue included; without the text it is to be done on. */
  readonly instruction: string;
  /** The text to classify, extract from or summarise. */
  readonly subject: string;
  /** Lines such as `Product: …` and `Received: …` before the text. */
  readonly details: string;
  /** Answers of the examples that the prompt gives under the same cue, in their order. */
  readonly examples: readonly string[];
}

const CUE = /^\s*([^:\n]{1,60}):[\s"{[]*$/;
const CAPTION = /^\s*["#*>]*(\p{L}[\p{L}\p{N} _-]{0,29})\**\s*:\s*(.*)$/u;

/** How an instruction begins. */
const INSTRUCTIVE =
  /^\W*(?:please\s+)?(?:classif|determin|decid|tell|return|answer|extract|respond|reply|give|choose|pick|select|use|using|output|task|instruction|label|categor|option|class|field|key|schema|format|example|json|rule|note|important|summar|rate|write|translate|identify|analy|what|which|is\b|does\b|read|find|list\b|provide|possible|allowed|you are)/i;
/** A line `Return JSON with:` or `The answer has these keys:` begins no text. */
const LISTING = /\b(?:keys|labels|fields|json|categories|properties|values|options)\b/i;

/** A caption of this name holds the text itself, whatever lines like `Label: …` it has inside. */
const TEXT = /text|message|review|mail|comment|feedback|content|post|article|complaint|ticket|document/i;

/** Takes a prompt apart. */
export function partsOf(prompt: string): PromptParts {
  const lines = prompt.trimEnd().split('\n');
  const cue = lines.length === 1 ? undefined : CUE.exec(lines.at(-1) ?? '')?.[1]?.trim();
  const body = cue === undefined ? lines : lines.slice(0, -1);
  const isExample = (line: string) =>
    cue !== undefined && line.trimStart().toLowerCase().startsWith(`${cue.toLowerCase()}:`);
  const [instruction, details, subject] = divide(body, body.findLastIndex(isExample) + 1);
  return {
    instruction: `${instruction}\n\n${cue ?? ''}`,
    subject: subject.trim().replace(/^(["'`]{1,3})([\s\S]*)\1$/, '$2'),
    details,
    examples: body.filter(isExample).map((line) => line.slice(line.indexOf(':') + 1).trim()),
  };
}

/** Instruction, details and subject. The subject begins with a line of the form `Review: …`, or else with a paragraph. */
function divide(lines: readonly string[], from: number): [string, string, string] {
  const first = firstCaption(lines, from);
  const before = lines.slice(0, first).join('\n');
  if (first >= 0 && before.trim() !== '') {
    let text = first;
    while (captionOf(lines[text + 1]) !== null && !TEXT.test(captionOf(lines[text]) ?? '')) text++;
    const begin = CAPTION.exec(lines[text] ?? '')?.[2] ?? '';
    return [before, lines.slice(first, text).join('\n'), [begin, ...lines.slice(text + 1)].join('\n')];
  }
  const whole = lines.slice(from).join('\n');
  const paragraphs = whole.split(/\n\s*\n/);
  const [opening = '', last = ''] = [paragraphs[0], paragraphs.at(-1)];
  if (paragraphs.length > 1 && !INSTRUCTIVE.test(opening) && INSTRUCTIVE.test(last)) {
    return [
      last,
      '',
      paragraphs
        .slice(0, -1)
        .join('\n\n')
        .replace(/^.{1,30}?:\s/, ''),
    ];
  }
  const end = /\n\s*\n/.exec(whole)?.index ?? whole.search(/: |\n/);
  return INSTRUCTIVE.test(whole) && end > 0
    ? [whole.slice(0, end), '', whole.slice(end + 1)]
    : [whole, '', whole];
}

/** Captions inside an object, or in the lines behind a colon, define keys or labels and begin no text. */
function firstCaption(lines: readonly string[], from: number): number {
  let [depth, inList] = [0, false];
  for (const [at, line] of lines.entries()) {
    if (at < from) continue;
    if (line.trim() === '') inList = false;
    else if (depth === 0 && !inList && captionOf(line) !== null) return at;
    else if (line.trimEnd().endsWith(':')) inList = true;
    depth += line.split('{').length - line.split('}').length;
  }
  return lines.findIndex((line, at) => at >= from && TEXT.test(captionOf(line) ?? ''));
}

function captionOf(line: string | undefined): string | null {
  const name = CAPTION.exec(line ?? '')?.[1];
  return name === undefined || INSTRUCTIVE.test(name) || LISTING.test(name) ? null : name;
}

/** English words of opinion by their beginnings. */
const GOOD =
  /^(?:love|perfect|amazing|awesome|fantastic|excellent|wonderful|great|good|nice|beautiful|lovely|comf|happy|pleas|glad|enjoy|recommend|satisf|helpful|friendly|fast|easy|reliab|best|better|brilliant|superb|delight|favou?rite|impress|quiet|sturdy|solid|durable|warm|bright|flatter|cute|soft|worth|quality|compliment|thank|gorgeous|clever|handy|smooth|finally|works|lasts|survive)/;
const BAD =
  /^(?:terribl|horribl|awful|worst|worse|disappoint|hate|useless|garbage|poor|bad|broke|refund|return|waste|cheap|flimsy|leak|crack|rust|stuck|jam|slip|smell|noisy|loud|slow|late|wrong|problem|issue|fault|fail|damage|defect|ripped|torn|tore|hole|itchy|uncomfort|shapeless|unfortunate|sad|annoy|frustrat|rude|missing|junk|scam|dead|died|stopped|avoid|unhappy|nothing|never|weird|odd|thin|tight|huge|stiff|overpric|expensive|complain|unus|mess|fell|burn|melt|wobbl|squeak|cold|hurt|pain|meh|support|too$)/;
const NEGATION = /^(?:not|no|never|hardly|barely|without|cannot|\p{L}+n't)$/u;

/** Words of opinion that leave little doubt, unless they are negated. */
const PLAIN =
  /^(?:love|perfect|amazing|awesome|fantastic|excellent|wonderful|great|beautiful|gorgeous|comf|happy|glad|compliment|recommend|best|superb|enjoy|finally|easy|refund|return|broke|leak|crack|rust|disappoint|worst|awful|terribl|horribl|unfortunate|flimsy|hole|died|burn|waste|useless|poor|stopped|hate|avoid|ripped|torn|smell)/;

/** What the other words of opinion weigh beside those. */
const VAGUE = 0.4;

/** A negation turns around what follows within so many words. */
const NEGATION_REACH = 3;

/** The opinion of an English text. */
export interface Opinion {
  /** From −2 to 2. */
  readonly tone: number;
  /** How far the text leans to one side: by plain words more than by vague ones, less where some say the opposite. About −5 to 5. */
  readonly leaning: number;
}

/** `null` for a text without an English word of opinion. What follows "but" counts twice. */
export function opinionOf(text: string): Opinion | null {
  let [isSaid, sum, weight, negated, leaning, evidence] = [false, 0, 1, 0, 0, 0];
  for (const word of wordsOf(text)) {
    if (word === 'but' || word === 'however') weight = 2;
    const side = GOOD.test(word) ? 1 : BAD.test(word) ? -1 : 0;
    const points = negated > 0 ? -side * weight : side * weight;
    const clarity = negated <= 0 && PLAIN.test(word) ? 1 : VAGUE;
    isSaid ||= side !== 0;
    sum += points;
    leaning += clarity * points;
    evidence += clarity * Math.abs(points);
    negated = NEGATION.test(word) ? NEGATION_REACH : negated - 1;
  }
  if (!isSaid) return null;
  return { tone: Math.max(-2, Math.min(2, sum)), leaning: leaning / Math.sqrt(evidence + 0.3) };
}

/** The words of a text, in lower case. */
export function wordsOf(text: string): string[] {
  return (
    text
      .toLowerCase()
      .replaceAll('’', "'")
      .match(/[\p{L}\p{N}]+(?:'\p{L}+)*/gu) ?? []
  );
}

/** Most words of a summary. */
const SUMMARY_WORDS = 30;

/** A text's first sentence, with an end. */
export function summaryOf(text: string): string {
  const plain = text.replace(/\s+/g, ' ').trim();
  const words = (/^.{15,}?[.!?](?=\s|$)/.exec(plain)?.[0] ?? plain).split(' ');
  const short = words.slice(0, SUMMARY_WORDS).join(' ');
  return words.length > SUMMARY_WORDS ? `${short}…` : short.replace(/(?<![.!?])$/, '.');
}
