import { completionBody, type Script, type ScriptedReply, type ScriptedRequest } from './scripted-service.js';

/** How llama.cpp's own server answers, as two of its builds did when they were tried. */
export interface LlamaServer {
  /** `b4748` is of February 2025, `v0.5.0` of September 2026. */
  readonly build: 'b4748' | 'v0.5.0';
  /** Tokens of a slot's context. @default 4,096 */
  readonly context?: number;
  /** Calls that come while the model is loaded. @default 0 */
  readonly loading?: number;
  /** Prompts that it cannot do, and says so with a 500 of which nobody knows the words. @default none */
  readonly fails?: RegExp;
}

/** What it generates where a request says nothing: as much as it can. */
const WITHOUT_END = 2048;

/** A word is a token here, and one is put before each prompt. */
export const tokensOf = (prompt: string): number => prompt.split(' ').length + 1;

/** A script that answers like a build of the server. Each answer is `re` and the first word of the prompt. */
export function llamaServer({ build, context = 4096, loading = 0, fails }: LlamaServer): Script {
  return (request): ScriptedReply => {
    const { body, text, total } = request;
    if (total <= loading) return error(503, 'unavailable_error', 'Loading model');
    for (const field of ['best_of', 'suffix'])
      if (field in body) return error(500, 'server_error', `Unsupported param: ${field}`);
    if (body['echo'] === true) return error(500, 'server_error', 'Only no echo is supported');
    if (/\\ud[89a-f]/i.test(text)) return error(500, 'server_error', 'invalid UTF-8 byte');

    const prompts = promptsOf(request);
    if (prompts.some((prompt) => fails?.test(prompt))) return error(500, 'server_error', 'cannot do that');
    const tooLong = prompts.find((prompt) => tokensOf(prompt) > context);
    if (tooLong !== undefined && build === 'v0.5.0') {
      const message = `request (${tokensOf(tooLong)} tokens) exceeds the available context size (${context} tokens), try increasing it`;
      return error(400, 'exceed_context_size_error', message);
    }
    const completion_tokens = typeof body['max_tokens'] === 'number' ? body['max_tokens'] : WITHOUT_END;
    const answers = prompts.map((prompt, index) => {
      const { choices, ...rest } = completionBody({
        text: ` re ${prompt.split(' ')[0]}`,
        // The middle of what is too long is left out in silence.
        prompt_tokens: tokensOf(prompt) > context ? context / 2 : tokensOf(prompt),
        completion_tokens,
        filters: false,
      });
      return { ...rest, choices: choices.map((choice) => ({ ...choice, index })) };
    });
    const [first] = answers;
    if (prompts.length === 1) return { json: first };
    if (build === 'b4748') return { json: answers };
    return { json: { ...first, choices: answers.flatMap(({ choices }) => choices) } };
  };
}

export const promptsOf = ({ body }: ScriptedRequest): string[] => [body['prompt']].flat().map(String);

const error = (code: number, type: string, message: string): ScriptedReply => ({
  status: code,
  json: { error: { code, message, type } },
});
