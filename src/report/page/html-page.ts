import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { packageFile } from '../../package-file.js';
import { foreignMarkup, type Html, html } from './markup.js';

/** A page that is one file. */
export interface HtmlPage {
  /** Of the window, and of the page. */
  readonly title: string;
  /** What is under the title, and what most readers come for. */
  readonly lead: Html;
  readonly sections: readonly PageSection[];
  readonly footer: Html;
}

/** A part of the page with a heading, and a place in its table of contents. */
export interface PageSection {
  /** Distinct on its page, of small letters. */
  readonly id: string;
  readonly title: string;
  readonly body: Html;
}

/**
 * The page as the text of a file that loads nothing. Its own rules allow the one style and the one script that are in it, by
 * their digests, so that markup of anybody else would do nothing. Tables of {@link rowTable} can be sorted and searched.
 */
export function htmlPage({ title, lead, sections, footer }: HtmlPage): string {
  const style = asset('report.css');
  const script = asset('report.js');
  const policy = [
    "default-src 'none'",
    `style-src '${digestOf(style)}'`,
    `script-src '${digestOf(script)}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="Promptmill">
<meta http-equiv="Content-Security-Policy" content="${foreignMarkup(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${title} – Promptmill</title>
<style>${foreignMarkup(style)}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<h1 dir="auto">${title}</h1>
${lead}
</header>
<nav aria-label="Sections"><ul>${sections.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
<main id="main" tabindex="-1">
${sections.map(
  (section) => html`<section id="${section.id}" aria-labelledby="${section.id}-title">
<h2 id="${section.id}-title">${section.title}</h2>
${section.body}
</section>
`,
)}</main>
<footer>${footer}</footer>
<script>${foreignMarkup(script)}</script>
</body>
</html>
`.source;
}

const asset = (name: string): string => readFileSync(packageFile(`dist/report/assets/${name}`), 'utf8');

const digestOf = (text: string): string => `sha256-${createHash('sha256').update(text).digest('base64')}`;
