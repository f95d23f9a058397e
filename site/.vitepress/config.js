import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitepress';

const REPOSITORY = 'https://github.com/promptmill/promptmill';

/** The table of contents that readers of the repository have, too: `## Group`, then `- [Page](file.md): question`. */
const contents = readFileSync(new URL('../pages/README.md', import.meta.url), 'utf8');
const groups = contents
  .split(/^## /m)
  .slice(1)
  .map((group) => ({
    text: group.split('\n', 1)[0],
    items: [...group.matchAll(/^- \[(.*?)\]\((.*?)\.md(#.*?)?\)/gm)].map(([, text, page, anchor = '']) => ({
      text,
      link: `/${page}${anchor}`,
    })),
  }));
for (const { text, items } of groups)
  if (text === 'Library') items.push({ text: 'Functions and types', link: '/api/' });

/** Files beside `docs/` are on GitHub only, and `{{ column }}` in code is text. */
function asOnGitHub(md) {
  md.core.ruler.push('as-on-github', ({ tokens }) => {
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      if (token.type === 'code_inline') token.attrSet('v-pre', '');
      const href = token.type === 'link_open' ? token.attrGet('href') : null;
      if (href?.startsWith('../')) token.attrSet('href', `${REPOSITORY}/blob/main/${href.slice(3)}`);
    }
  });
}

export default defineConfig({
  title: 'Promptmill',
  description: 'Batch job runner for text-completions endpoints',
  srcDir: 'pages',
  rewrites: { 'README.md': 'index.md' },
  markdown: { config: asOnGitHub, languageAlias: { cron: 'ini', promql: 'ini' } },
  vite: { build: { chunkSizeWarningLimit: 2000 } }, // KB: the search index
  themeConfig: {
    nav: [{ text: 'GitHub', link: REPOSITORY }],
    sidebar: groups,
    search: { provider: 'local' },
    outline: 'deep',
    editLink: { pattern: `${REPOSITORY}/edit/main/docs/:path` },
  },
});
