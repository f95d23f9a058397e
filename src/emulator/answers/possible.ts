export interface Possibility {
  readonly text: string;
  /** Probability at temperature 1. */
  readonly share: number;
}

export function inShares(weighed: readonly Possibility[]): Possibility[] {
  const total = weighed.reduce((sum, { share }) => sum + share, 0);
  return weighed.map(({ text, share }) => ({ text, share: share / total }));
}

export function drawn(possible: readonly Possibility[], temperature: number, random: () => number): string {
  const most = Math.max(...possible.map(({ share }) => share));
  // Relative to the largest, so that a very low temperature does not make every share 0.
  const tempered = inShares(
    possible.map(({ text, share }) => ({ text, share: (share / most) ** (1 / temperature) })),
  );
  let left = random();
  for (const { text, share } of tempered) {
    left -= share;
    if (left < 0) return text;
  }
  return tempered.at(-1)?.text ?? '';
}

/** Occasional answers that are none of the labels, each half as likely as the one before it. */
const NO_LABEL = ['mixed', 'unclear', 'It depends.', 'I am not sure.'] as const;

/** Probability of such an answer, of a label in another case, and of other leading white space. */
const NO_LABEL_SHARE = 0.02;
const OTHER_CASE_SHARE = 0.03;
const OTHER_LEAD_SHARE = 0.03;

/** @param lead white space before an answer */
export function spelled(labels: readonly Possibility[], lead: string): Possibility[] {
  const otherLead = lead === ' ' ? '' : ' ';
  return [
    ...labels.flatMap(({ text, share }) => {
      const part = (1 - NO_LABEL_SHARE) * share;
      return [
        { text: lead + text, share: part * (1 - OTHER_CASE_SHARE - OTHER_LEAD_SHARE) },
        { text: lead + inOtherCase(text), share: part * OTHER_CASE_SHARE },
        { text: otherLead + text, share: part * OTHER_LEAD_SHARE },
      ];
    }),
    ...inShares(NO_LABEL.map((text, index) => ({ text: lead + text, share: 0.5 ** index }))).map(
      ({ text, share }) => ({ text, share: NO_LABEL_SHARE * share }),
    ),
  ];
}

function inOtherCase(text: string): string {
  const first = text.charAt(0);
  const upper = first.toUpperCase();
  return (first === upper ? first.toLowerCase() : upper) + text.slice(1);
}
