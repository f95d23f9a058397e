import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** A page for users or contributors. */
export interface Page {
  /** From the root of the project. */
  readonly path: string;
  readonly text: string;
}

/** A fenced block of a page. */
export interface Block {
  /** Page and line, for messages. */
  readonly at: string;
  readonly path: string;
  /** First word behind the fence. */
  readonly language: string;
  /** What follows it: GitHub and the site ignore that. */
  readonly mark: string;
  readonly text: string;
}

export const pages: readonly Page[] = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md'],
  ...readdirSync(join(ROOT, 'docs')).flatMap((name) => (name.endsWith('.md') ? `docs/${name}` : [])),
].map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }));

export const blocks: readonly Block[] = pages.flatMap(({ path, text }) =>
  [...text.matchAll(/^```(\S*) ?(.*)\n([\s\S]*?)^```$/gm)].map(
    ({ index, 1: language = '', 2: mark = '', 3: block = '' }) => ({
      at: `${path}:${text.slice(0, index).split('\n').length}`,
      ...{ path, language, mark, text: block },
    }),
  ),
);

/** A command of a line of shell. */
export interface ShellCommand {
  readonly words: readonly string[];
  /** Whether it reads what another command writes. */
  readonly isPiped: boolean;
}

/** The commands of some lines of shell, without comments and redirections. */
export function shellCommands(text: string): ShellCommand[] {
  const lines = text.replaceAll('\\\n', ' ').replaceAll(/(^|\s)#.*$/gm, '');
  return lines.split('\n').flatMap((line) => {
    const commands: ShellCommand[] = [];
    let words: string[] = [];
    let isPiped = false;
    let isTarget = false;
    for (const [, operator, word = ''] of line.matchAll(TOKEN)) {
      if (operator === undefined) {
        if (!isTarget) words.push(word.replaceAll(/'([^']*)'|"([^"]*)"/g, '$1$2'));
        isTarget = false;
      } else if (operator.includes('>')) {
        isTarget = true;
      } else {
        if (words.length > 0) commands.push({ words, isPiped });
        words = [];
        isPiped = operator === '|';
      }
    }
    if (words.length > 0) commands.push({ words, isPiped });
    return commands;
  });
}

const TOKEN = /\s*(?:(&&|\|\|?|\d?>>?&?|<\(|[();])|((?:'[^']*'|"[^"]*"|[^\s'"|&<>();])+))/g;

/** What `promptmill` is called with, in whatever way; null for another command. */
export function argumentsOf({ words }: ShellCommand): readonly string[] | null {
  const at = words.slice(0, 3).findIndex((word) => /(^|\/)promptmill$/.test(word));
  return at === -1 || words[0] === 'docker' ? null : words.slice(at + 1);
}
