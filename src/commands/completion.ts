import { Argument, Command } from 'commander';
import { SHELLS } from './completion-scripts.js';

const EXAMPLES = `
Examples:
  $ source <(promptmill completion bash)
      in ~/.bashrc
  $ source <(promptmill completion zsh)
      in ~/.zshrc, after compinit
  $ promptmill completion fish > ~/.config/fish/completions/promptmill.fish

Completes commands, options, job files (*.yaml) and other files.
`;

const NAMES = Object.keys(SHELLS);

export function completionCommand(program: () => Promise<Command>): Command {
  return new Command('completion')
    .description('print what makes a shell complete commands and options')
    .addArgument(new Argument('<shell>', 'the shell').choices(NAMES))
    .addHelpText('after', EXAMPLES)
    .action(async (shell: keyof typeof SHELLS) => {
      process.stdout.write(SHELLS[shell](await program()));
    });
}
