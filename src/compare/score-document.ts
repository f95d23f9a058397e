import { LEAST_ANSWERED } from '../account/require.js';
import { count, counted, share } from '../core/figures.js';
import { isEmulated } from '../output/output-name.js';
import { type Block, type Document, section, text } from '../render/document.js';
import type { ExampleTexts } from '../render/example-texts.js';
import { REHEARSAL } from '../render/run-words.js';
import { scoreSections } from '../render/score-sections.js';
import type { ScoreReport } from './score-output.js';

export function scoreDocument(report: ScoreReport, examples: ExampleTexts): Document {
  const { output, records, gold, scores, notes } = report;
  const title = `${output}${isEmulated(output) ? REHEARSAL : ''}`;
  return {
    title,
    lead: [
      {
        blocks: [
          text(title, { style: 'strong', isWhole: true }),
          text(`${counted(records, 'record')}, right answers in ${gold.join(', ')}`),
        ],
      },
    ],
    sections: [
      ...scoreSections(scores, examples),
      section('abstention', 'Abstention', abstentionBlocks(report)),
      section(
        'notes',
        'Notes',
        notes.map((note) => text(note)),
      ),
    ],
    rest: 'in --json',
  };
}

function abstentionBlocks({ abstention }: ScoreReport): Block[] {
  if (abstention === null) return [];
  const rows = abstention.thresholds.map(({ threshold, coverage, accuracy }) => ({
    cells: [
      threshold.toFixed(2),
      share(coverage),
      accuracy === null ? '' : `${share(accuracy.value)} (${share(accuracy.low)} to ${share(accuracy.high)})`,
    ],
  }));
  const sentences = abstention.targets.map(({ accuracy, reached }) => {
    const target = `${Number((accuracy * 100).toFixed(6))} % accuracy`;
    if (reached?.accuracy == null)
      return `no threshold with ${LEAST_ANSWERED} rows with gold above it reaches ${target}`;
    const { threshold, coverage, answered, accuracy: got } = reached;
    const what = threshold === 0 ? 'every label may stay' : `abstain_below ${threshold}`;
    return (
      `at ${target} ${share(coverage)} of the rows are answered: ${what} ` +
      `(${count(answered)} rows with ${share(got.value)}, ${share(got.low)} to ${share(got.high)})`
    );
  });
  const columns = [
    { name: 'abstain_below', isNumber: true },
    { name: 'answered', isNumber: true },
    { name: 'accuracy' },
  ];
  return [
    { kind: 'table', caption: 'What thresholds of confidence do', columns, rows },
    ...sentences.map((sentence) => text(sentence)),
  ];
}
