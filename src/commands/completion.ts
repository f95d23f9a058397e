import { Argument, Command, type Option } from 'commander';

const EXAMPLES = `
Examples:
  $ source <(promptmill completion bash)
      in ~/.bashrc
  $ source <(promptmill completion zsh)
      in ~/.zshrc, after compinit
  $ promptmill completion fish > ~/.config/fish/completions/promptmill.fish

Completes commands, options, job files (*.yaml) and other files.
`;

export function completionCommand(program: () => Promise<Command>): Command {
  return new Command('completion')
    .description('print what makes a shell complete commands and options')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SHELLS)))
    .addHelpText('after', EXAMPLES)
    .action(async (shell: keyof typeof SHELLS) => {
      process.stdout.write(SHELLS[shell](await program()));
    });
}

/**
 * Shell completion scripts. They are generated from the program, so no command or option is missing, and
 * contain all words, so that the shell need not start Node.js at each key press.
 */
export const SHELLS = { bash, zsh, fish } as const;

type Kind = 'job files' | 'files' | 'nothing' | readonly string[];

interface Words {
  /** The words that lead to it, such as `schedule sync`; empty for the program. */
  readonly path: string;
  readonly name: string;
  readonly description: string;
  readonly options: readonly OptionWords[];
  readonly subcommands: readonly Words[];
  readonly argument: Kind;
}

interface OptionWords {
  readonly short: string | undefined;
  readonly long: string;
  readonly description: string;
  /** `null` for an option without a value. */
  readonly value: Kind | null;
}

function wordsOf(command: Command, path = ''): Words {
  const help = command.createHelp();
  const subcommands = help
    .visibleCommands(command)
    .map((each) => wordsOf(each, `${path} ${each.name()}`.trim()));
  const [argument] = command.registeredArguments;
  return {
    path,
    name: command.name(),
    description: help.subcommandDescription(command),
    options: help.visibleOptions(command).map(optionWords),
    subcommands,
    argument: argument === undefined ? 'nothing' : (argument.argChoices ?? kindOf(argument.name(), 'files')),
  };
}

const optionWords = ({ short, long, description, required, optional, argChoices, flags }: Option) => ({
  short,
  long: long ?? short ?? flags,
  description,
  value: required || optional ? (argChoices ?? kindOf(/[<[](.+)[>\]]/.exec(flags)?.[1] ?? '')) : null,
});

/** Derived from the name of the value in the help. */
function kindOf(name: string, other: Kind = 'nothing'): Kind {
  if (/^(job|paths?)(\.\.\.)?$/i.test(name)) return 'job files';
  return /file|folder|output|summary|data/i.test(name) ? 'files' : other;
}

const all = (words: Words): Words[] => [words, ...words.subcommands.flatMap(all)];

const optionNames = ({ options }: Words): string[] =>
  options.flatMap(({ short, long }) => [...new Set([short ?? long, long])]);

function bash(program: Command): string {
  const root = wordsOf(program);
  const commands = all(root);
  const named = (each: Words, kind: (value: Kind) => boolean): string =>
    each.options
      .filter(({ value }) => value !== null && kind(value))
      .map(({ long }) => ` ${long} `)
      .join('');
  const first = ({ argument, subcommands, path }: Words): string => {
    if (subcommands.length > 0) return `words='${subcommands.map(({ name }) => name).join(' ')}'`;
    if (typeof argument !== 'string') return `words='${argument.join(' ')}'`;
    if (path === 'help') return `words='${root.subcommands.map(({ name }) => name).join(' ')}'`;
    return { 'job files': "files='\\.ya?ml$'", files: "files='.'", nothing: ':' }[argument];
  };
  return `# Completion of promptmill in bash. In ~/.bashrc: source <(promptmill completion bash)
_promptmill_files() {
  local file
  compopt -o filenames 2>/dev/null
  while IFS= read -r file; do
    if [[ -d $file || $file =~ $1 ]]; then COMPREPLY+=("$file"); fi
  done < <(compgen -f -- "$cur")
}
_promptmill() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= words= files= options= filed= valued= i
  # bash takes --input=rows.csv for three words.
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path \${COMP_WORDS[i]}" in
${commands
  .filter(({ path }) => path !== '')
  .map(({ path }) => `      '${path.includes(' ') ? path : ` ${path}`}') path='${path}' ;;`)
  .join('\n')}
    esac
  done
  case "$path" in
${commands
  .map(
    (each) => `    '${each.path}')
      options='${optionNames(each).join(' ')}'
      filed='${named(each, (kind) => kind === 'files' || kind === 'job files')}'
      valued='${named(each, (kind) => kind === 'nothing' || typeof kind !== 'string')}'
      ${first(each)} ;;`,
  )
  .join('\n')}
  esac
  if [[ $filed == *" $prev "* ]]; then _promptmill_files .
  elif [[ $valued == *" $prev "* ]]; then :
  elif [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$cur"))
  elif [[ -n $files ]]; then _promptmill_files "$files"
  fi
}
complete -F _promptmill promptmill
`;
}

function zsh(program: Command): string {
  const root = wordsOf(program);
  /** In single quotes, where `[`, `]` and `:` have a meaning for zsh. */
  const quoted = (text: string): string => text.replace(/[\\[\]:]/g, '\\$&').replaceAll("'", "'\\''");
  const action = (kind: Kind): string => {
    if (typeof kind !== 'string') return `(${kind.join(' ')})`;
    return { 'job files': '_files -g "*.(yaml|yml)"', files: '_files', nothing: ' ' }[kind];
  };
  const option = ({ short, long, description, value }: OptionWords): string[] =>
    [...new Set([short ?? long, long])].map((name) => {
      const takes = value === null ? '' : `:value:${action(value)}`;
      const joined = value !== null && name.startsWith('--') ? '=' : '';
      return `'${name}${joined}[${quoted(description)}]${takes}'`;
    });
  const functionName = ({ path }: Words): string =>
    `_promptmill${path && `_${path.replace(/[^a-z]/g, '_')}`}`;
  const body = (each: Words): string => {
    const options = each.options.flatMap(option);
    if (each.subcommands.length === 0) {
      const specs = [
        ...options,
        ...(each.argument === 'nothing' ? [] : [`'*:argument:${action(each.argument)}'`]),
      ];
      return `  _arguments ${specs.join(' \\\n    ')}`;
    }
    return `  local state line
  local -a commands=(
${each.subcommands.map(({ name, description }) => `    '${quoted(name)}:${quoted(description)}'`).join('\n')}
  )
  _arguments -C ${[...options, "'1:command:->command'", "'*::argument:->argument'"].join(' \\\n    ')}
  case $state in
    command) _describe command commands ;;
    argument)
      case $line[1] in
${each.subcommands.map((below) => `        ${below.name}) ${functionName(below)} ;;`).join('\n')}
      esac ;;
  esac`;
  };
  return `#compdef promptmill
# Completion of promptmill in zsh. In ~/.zshrc, after compinit: source <(promptmill completion zsh)
${all(root)
  .map((each) => `${functionName(each)}() {\n${body(each)}\n}`)
  .join('\n')}
if [[ $funcstack[1] == _promptmill ]]; then _promptmill "$@"; else compdef _promptmill promptmill; fi
`;
}

function fish(program: Command): string {
  const root = wordsOf(program);
  const quoted = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`;
  const line = (condition: string, ...words: readonly string[]): string =>
    `complete -c promptmill -n ${quoted(condition)} ${words.join(' ')}`;
  /** True directly below a command, and not below one of its subcommands. */
  const within = ({ path, subcommands }: Words): string =>
    path === ''
      ? '__fish_use_subcommand'
      : [
          ...path.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`),
          ...(subcommands.length === 0
            ? []
            : [`not __fish_seen_subcommand_from ${subcommands.map(({ name }) => name).join(' ')}`]),
        ].join('; and ');
  const value = (kind: Kind): string => {
    if (typeof kind !== 'string') return `-x -a ${quoted(kind.join(' '))}`;
    return kind === 'nothing' ? '-x' : '-r -F';
  };
  const argument = (each: Words): string[] => {
    if (typeof each.argument !== 'string') return [line(within(each), '-a', quoted(each.argument.join(' ')))];
    if (each.argument === 'job files')
      return [line(within(each), '-k', '-a', quoted('(__fish_complete_suffix .yaml)'))];
    return each.argument === 'files' ? [line(within(each), '-F')] : [];
  };
  return `# Completion of promptmill in fish. Once: promptmill completion fish > ~/.config/fish/completions/promptmill.fish
complete -c promptmill -f
${all(root)
  .flatMap((each) => [
    ...each.subcommands.map(({ name, description }) =>
      line(within(each), '-a', quoted(name), '-d', quoted(description)),
    ),
    ...argument(each),
    ...each.options.map(({ short, long, description, value: kind }) =>
      line(
        within(each),
        ...(short === undefined ? [] : ['-s', short.replace(/^-+/, '')]),
        '-l',
        long.replace(/^-+/, ''),
        ...(kind === null ? [] : [value(kind)]),
        '-d',
        quoted(description),
      ),
    ),
  ])
  .join('\n')}
`;
}
