/** A prompt as a model would read it: what to do, on which text, and after which cue the answer begins. */
export interface PromptParts {
  /** What to do, cue included; without the text it is to be done on. */
  readonly instruction: string;
  /** The text to classify, extract from or summarise. */
  readonly subject: string;
  /** Lines such as `Product: …` and `Received: …` before the text: they tell about it and are not part of it. */
  readonly details: string;
  /** Answers of the examples that the prompt gives under the same cue, in their order. */
  readonly examples: readonly string[];
}

const CUE = /^\s*([^:\n]{1,60}):[\s"{[]*$/;

/** A line like `Review: …` begins the subject. */
const FIELD_LINE = /^\s*["#*>]*([\p{L}][\p{L}\p{N} _-]{0,29})\**\s*:\s*(.*)$/u;

/** Words that begin an instruction, so that `Return JSON with: …` or `Labels: …` is no subject. */
const INSTRUCTIVE =
  /^\W*(?:please\s+)?(?:classif|determin|decid|tell|return|answer|extract|respond|reply|give|choose|pick|select|use|using|output|task|instruction|label|categor|option|class|field|key|schema|format|example|json|rule|note|important|summar|rate|write|translate|identify|analy|what|which|is\b|does\b|read|find|list\b|provide|possible|allowed|you are|klassifi|bestimm|extrah|antwort|classe|extrai|répond|clasific|extrae|respond|rispond)/i;

/** A field of this name holds the text itself, whatever lines like `Label: …` it has inside. */
const TEXT_FIELD =
  /review|message|text|comment|feedback|body|content|e-?mail|tweet|post|article|complaint|ticket|transcript|passage|document|sentence|nachricht|bewertung|avis|mensaje|reseña|recensione|messaggio|avaliação|mensagem|bericht/i;

/** Takes a prompt apart. */
export function partsOf(prompt: string): PromptParts {
  const lines = prompt.trimEnd().split('\n');
  const cue = CUE.exec(lines.at(-1) ?? '')?.[1]
    ?.trim()
    .toLowerCase();
  const body = cue === undefined || lines.length === 1 ? lines : lines.slice(0, -1);

  const examples: string[] = [];
  let afterExamples = 0;
  if (cue !== undefined) {
    body.forEach((line, index) => {
      const colon = line.indexOf(':');
      if (colon < 0 || line.slice(0, colon).trim().toLowerCase() !== cue) return;
      examples.push(line.slice(colon + 1).trim());
      afterExamples = index + 1;
    });
  }
  const { instruction, subject, details = '' } = divide(body, afterExamples);
  return { instruction: `${instruction}\n${cue ?? ''}`, subject: subject.trim(), details, examples };
}

interface Division {
  readonly instruction: string;
  readonly subject: string;
  readonly details?: string;
}

/** Instruction and subject, from the most to the least certain sign of where the subject begins. */
function divide(lines: readonly string[], from: number): Division {
  const labelled = subjectLine(lines, from);
  if (labelled >= 0) {
    const text = textLine(lines, labelled);
    const value = FIELD_LINE.exec(lines[text] ?? '')?.[2] ?? '';
    const before = lines.slice(0, labelled).join('\n');
    const following = [value, ...lines.slice(text + 1)].join('\n');
    // People write "please find" too: only a prompt that did not say before what to do says it behind the text.
    const [subject, rest] = INSTRUCTIVE.test(before) ? [following, ''] : untilInstruction(following);
    return {
      instruction: `${before}\n${rest}`,
      subject: unquoted(subject),
      details: lines.slice(labelled, text).join('\n'),
    };
  }
  const text = lines.slice(from).join('\n');
  const enclosed =
    /"""([\s\S]+?)"""|```\w*\n?([\s\S]+?)```|<(\w+)>([\s\S]+?)<\/\3>|["“]([^"”\n]{12,})["”]/.exec(text);
  if (enclosed) {
    const subject = enclosed[1] ?? enclosed[2] ?? enclosed[4] ?? enclosed[5] ?? '';
    return { instruction: lines.slice(0, from).join('\n') + text.replace(enclosed[0], ''), subject };
  }
  const paragraphs = text.split(/\n\s*\n/);
  const [first = '', ...others] = paragraphs;
  if (others.length > 0) {
    return INSTRUCTIVE.test(first) || !INSTRUCTIVE.test(paragraphs.at(-1) ?? '')
      ? { instruction: first, subject: others.join('\n\n') }
      : { instruction: paragraphs.at(-1) ?? '', subject: paragraphs.slice(0, -1).join('\n\n') };
  }
  const [line = '', ...following] = text.split('\n');
  if (following.length > 0 && INSTRUCTIVE.test(line)) {
    return { instruction: line, subject: following.join('\n') };
  }
  const colon = text.indexOf(': ');
  if (colon > 0 && INSTRUCTIVE.test(text)) {
    return { instruction: text.slice(0, colon), subject: text.slice(colon + 1) };
  }
  return { instruction: text, subject: text };
}

/**
 * The line that begins the fields of the subject, or −1. Lines `name: meaning` that follow a line with a colon at
 * its end define labels or keys when another paragraph brings the subject.
 */
function subjectLine(lines: readonly string[], from: number): number {
  const first = lines.findIndex((line, index) => index >= from && beginsSubject(line));
  if (first <= 0 || !/:\s*$/.test(lines[first - 1] ?? '')) return first;
  const gap = lines.findIndex((line, index) => index > first && line.trim() === '');
  return gap >= 0 && beginsSubject(lines[gap + 1] ?? '') ? gap + 1 : first;
}

/** The line where the text itself begins: the first field that is called a text, or the last of a run of fields. */
function textLine(lines: readonly string[], from: number): number {
  let at = from;
  for (; beginsSubject(lines[at + 1] ?? ''); at++) {
    const [, name = '', value = ''] = FIELD_LINE.exec(lines[at] ?? '') ?? [];
    if (TEXT_FIELD.test(name) || value === '') break;
  }
  return at;
}

function beginsSubject(line: string): boolean {
  const name = FIELD_LINE.exec(line)?.[1];
  return name !== undefined && !INSTRUCTIVE.test(name);
}

/** The subject ends where a new paragraph gives an instruction. */
function untilInstruction(text: string): [subject: string, rest: string] {
  for (const gap of text.matchAll(/\n\s*\n/g)) {
    const rest = text.slice(gap.index + gap[0].length);
    if (INSTRUCTIVE.test(rest)) return [text.slice(0, gap.index), rest];
  }
  return [text, ''];
}

function unquoted(text: string): string {
  return /^(["'`]{1,3})([\s\S]*)\1$/.exec(text.trim())?.[2] ?? text;
}
