import { Argument, Command } from 'commander';
import { shellWord } from '../core/started.js';

const EXAMPLES = `
Examples:
  $ source <(promptmill completion bash)
      in ~/.bashrc; with zsh in ~/.zshrc, after compinit
  $ promptmill completion fish > ~/.config/fish/completions/promptmill.fish
`;

export function completionCommand(program: () => Promise<Command>): Command {
  return new Command('completion')
    .description('print what makes a shell complete commands and options')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SHELLS)))
    .addHelpText('after', EXAMPLES)
    .action(async (shell: keyof typeof SHELLS) => {
      const table = rowsOf(await program()).map((row) => row.join('\t'));
      process.stdout.write(SHELLS[shell](`printf %s ${shellWord(table.join('\n'))} | ${FIRST_MATCH}`));
    });
}

/** What may come next: a pattern of the words so far, then a word (or a pattern of files) and its description. */
function rowsOf(command: Command, before = '^'): string[][] {
  const help = command.createHelp();
  const commands = help.visibleCommands(command);
  const at = before + (commands.length > 0 ? '(;-[^;]*)*' : '(;.*)?');
  const options = help.visibleOptions(command).flatMap(({ long = '', flags, description, argChoices }) => {
    const [, value] = /[<[](.+)[>\]]/.exec(flags) ?? [];
    const values = value === undefined ? [] : (argChoices ?? [filesOf(value)]);
    return [
      [`${at};-[^;=]*$`, long, description],
      ...values.map((each) => [`${at};${long}(;=;|[;=])[^;]*$`, each]),
    ];
  });
  const words = command.registeredArguments
    .slice(0, 1)
    .flatMap((each) => each.argChoices ?? filesOf(each.name(), '*'));
  return [
    ...options,
    ...commands.map((each) => [`${at}(;help)?;[^;]*$`, each.name(), help.subcommandDescription(each)]),
    ...words.map((word) => [`${at};[^;]*$`, word]),
    ...commands.flatMap((each) => rowsOf(each, `${at};${each.name()}`)),
  ];
}

/** By the name of a value in the help. */
function filesOf(name: string, other = ''): string {
  if (/^(job|paths?)$/i.test(name)) return '*.y*ml';
  return /file|folder|output|summary|data/i.test(name) ? '*' : other;
}

const FIRST_MATCH = `awk -F '\\t' '
  BEGIN { for (i = 1; i < ARGC; i++) line = line ";" ARGV[i]; ARGC = 1 }
  !found && line ~ $1 { found = $1 }
  $1 == found && $2 != "" { print $2 "\\t" $3 }'`;

/** The scripts hold all words: a shell that started Node.js at each key press would be slow. */
const SHELLS = {
  bash: (lookUp: string) => `_promptmill() {
  local IFS=$'\\n' word=\${COMP_WORDS[COMP_CWORD]#=} words
  words=$(${lookUp} "\${COMP_WORDS[@]:1:COMP_CWORD}" | cut -f 1)
  if [[ $words != '*'* ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); return; fi
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -X "!$words" -- "$word"; compgen -d -X "$words" -- "$word")
}
complete -F _promptmill promptmill
`,
  zsh: (lookUp: string) => `_promptmill() {
  local -a rows=(\${(f)"$(${lookUp} "\${(@)words[2,CURRENT]}")"})
  compset -P '--*='
  rows=(\${\${rows/$'\\t'/:}%:})
  if [[ $rows[1] == '*'* ]]; then _files -g $rows[1]; else _describe value rows; fi
}
compdef _promptmill promptmill
`,
  fish: (lookUp: string) => `function _promptmill
  set -l word (commandline -ct)
  set -l option (string match -r -- '^--[^=]+=|^' "$word")
  set -l rows (${lookUp} (commandline -opc)[2..-1] "$word")
  string match -q '\\**' -- $rows[1]
  and set rows (__fish_complete_suffix (string replace -- "$option" '' "$word") .yaml)
  printf '%s\\n' $option$rows
end
complete -c promptmill -k -f -a '(_promptmill)'
`,
};
