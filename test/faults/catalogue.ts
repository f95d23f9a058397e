/** Something that happens and must not break Promptmill. */
export interface Fault {
  readonly number: number;
  readonly title: string;
  /** Why no test shows it. */
  readonly absent?: string;
  /** What the tests that show it leave out, and why. */
  readonly missing?: string;
}

/** Every fault, by the number that the names of tests carry. */
export const FAULTS: readonly Fault[] = [
  // Input
  { number: 1, title: 'a byte-order mark' },
  { number: 2, title: 'UTF-16, and bytes that are no UTF-8' },
  { number: 3, title: 'line ends of every kind, mixed' },
  { number: 4, title: 'a quote out of place' },
  { number: 5, title: 'a ragged record' },
  { number: 6, title: 'two columns of one name' },
  { number: 7, title: 'a cell of 10 MB' },
  { number: 8, title: 'NUL, lone surrogates, emoji, right-to-left text' },
  { number: 9, title: 'names of a prototype' },
  { number: 10, title: 'text that looks like a number' },
  { number: 11, title: 'bad and blank lines of JSONL' },
  { number: 12, title: 'an empty file, a header alone, another kind of file' },
  { number: 13, title: 'broken gzip, a gzip bomb' },
  { number: 14, title: 'the input edited before a resume' },
  { number: 15, title: 'the job edited before a resume' },
  { number: 16, title: 'a million rows, 500 columns' },
  // Service and network
  { number: 17, title: '429 with every kind of hint' },
  { number: 18, title: '429 for ever' },
  { number: 19, title: '400, 401, 403, 404' },
  {
    number: 20,
    title: 'bursts of 5xx, an outage',
    missing: 'the outages of the tests last a minute and less, not ten',
  },
  { number: 21, title: 'a reset after the request was read' },
  { number: 22, title: 'a stale connection' },
  { number: 23, title: 'a body cut short' },
  { number: 24, title: '200 without an answer' },
  { number: 25, title: 'a body that drips, an answer after ten minutes' },
  { number: 26, title: 'no name, no connection, a bad certificate' },
  { number: 27, title: 'a redirect' },
  { number: 28, title: 'a response of 100 MB' },
  { number: 29, title: 'capacity halves' },
  // Queue and store
  { number: 30, title: 'Redis killed and back at once' },
  { number: 31, title: 'Redis away for longer than a lock, or frozen' },
  { number: 32, title: 'Redis away beyond the default reconnects' },
  { number: 33, title: 'READONLY after a failover' },
  { number: 34, title: 'Redis full' },
  { number: 35, title: 'Redis back and empty' },
  { number: 36, title: 'a lost reply of the store' },
  { number: 37, title: 'events trimmed' },
  {
    number: 38,
    title: 'PostgreSQL killed, its backends terminated',
    absent: 'PostgreSQL is no store any more',
  },
  { number: 39, title: 'two runs in one state directory, one that is read-only or full' },
  // Process
  { number: 40, title: 'kill -9 of the run' },
  { number: 41, title: 'kill -9 of one worker of several' },
  { number: 42, title: 'kill -9 while a commit is written' },
  { number: 43, title: 'an event loop blocked for longer than a lock' },
  { number: 44, title: 'a row that crashes its workers' },
  { number: 45, title: 'SIGINT, SIGTERM' },
  { number: 46, title: 'SIGTERM while the store is away' },
  { number: 47, title: 'the scheduler down for six ticks' },
  { number: 48, title: 'two runs to one output' },
  // Disk
  { number: 49, title: 'a full disk' },
  { number: 50, title: 'the part file cut at any byte' },
  { number: 51, title: 'standard output closed early' },
  { number: 52, title: 'an output folder that is missing, or not writable' },
  // Security
  { number: 53, title: 'the key in what is left behind' },
  { number: 54, title: 'formulas' },
  { number: 55, title: 'markup in the HTML report' },
  { number: 56, title: 'code in templates and rows' },
  { number: 57, title: 'a key that a header cannot carry' },
  { number: 58, title: 'a forged job in the queue' },
  { number: 59, title: 'a dashboard without login, a public store without password' },
  // Files
  { number: 60, title: 'two runs to one output that begin together, anywhere' },
  { number: 61, title: 'the input edited while the run goes on' },
  { number: 62, title: 'an empty output and --overwrite' },
  { number: 63, title: 'part file or manifest lost while the run goes on' },
  { number: 64, title: "a stranger's file at the output's name" },
  { number: 65, title: 'links at temporary names' },
  { number: 66, title: 'two outputs with one stem' },
  { number: 67, title: 'a FIFO or a device as output' },
  { number: 68, title: 'who may read the state directory' },
  // Input and output text
  { number: 69, title: 'a megabyte that almost fits a pattern' },
  { number: 70, title: '6,000 columns by 6,000 rows' },
  { number: 71, title: 'a quote inside a cell' },
  { number: 72, title: 'formulas in disguise' },
  { number: 73, title: 'answers of 12 MB, bytes that are no UTF-8' },
  { number: 74, title: '20,000 labels' },
  // Service
  { number: 75, title: '200 with a choice without a text' },
  { number: 76, title: 'choices with wrong indexes' },
  { number: 77, title: 'odd usage' },
  { number: 78, title: 'a key echoed in escapes' },
  { number: 79, title: '429s at random' },
  { number: 80, title: 'one refusal among many answers' },
  // Stores and processes
  { number: 81, title: 'a store that refuses or lies' },
  { number: 82, title: 'SIGTERM with the store away' },
  { number: 83, title: 'a job file that cannot be read' },
  { number: 84, title: 'resource limits, an exception that nobody caught' },
  { number: 85, title: 'odd posts in the store' },
  { number: 86, title: 'ten wrong passwords' },
  { number: 87, title: 'a password in a wrong address' },
  { number: 88, title: 'two runs of one deployment' },
  { number: 89, title: 'kill -9 with unknown_outcome: hold' },
  { number: 90, title: 'clock changes' },
  // Finished outputs that were changed
  { number: 91, title: 'a finished output sorted, cut, edited, saved again' },
  { number: 92, title: 'the same for JSONL, .gz, and outputs of few columns' },
  { number: 93, title: 'an input that grew behind a last line without an end' },
  { number: 94, title: 'two commands on one output, each killed, each after the other' },
  { number: 95, title: 'a summary edited, of another output, of another version' },
  // Servers that people have
  { number: 96, title: 'packed prompts and budget with an unknown tokenizer' },
  { number: 97, title: 'a prompt that the server cuts in silence' },
  { number: 98, title: '400 with "model not found"' },
  { number: 99, title: 'a kept connection closed without a word' },
  // What is shown
  { number: 100, title: 'rows that need no call, in speed and time left' },
  { number: 101, title: 'numbers clipped on a page' },
  { number: 102, title: 'the page of a run that goes on' },
  { number: 103, title: 'a page that asks another address' },
  // Rehearsals, bad nights, mistakes
  { number: 104, title: 'a rehearsal beside a real run' },
  { number: 105, title: 'three nights, two of them bad' },
  { number: 106, title: 'job files that are sound and mean nothing' },
  { number: 107, title: 'private files, through every command' },
  { number: 108, title: 'two jobs with one output' },
  // Stores, hosts, slow servers
  { number: 109, title: 'a key of the queue deleted alone' },
  { number: 110, title: 'rows whose outcome the store lost' },
  { number: 111, title: 'a host that aborts, moves or ends' },
  { number: 112, title: 'more calls at once than a server has room for' },
  { number: 113, title: 'slots that share one context' },
  // Found later
  { number: 114, title: 'a reader of standard output that takes its time' },
];
