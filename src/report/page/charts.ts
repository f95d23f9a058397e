import type { TopLevelSpec } from 'vega-lite';
import { count } from '../../figures.js';
import { foreignMarkup, type Html, html, type Piece } from './markup.js';
import { figureTable } from './tables.js';

/** Width and height of a chart in the pixels of the page: about those of a phone, so that its text has one size everywhere. */
const SIZE = { width: 320, height: 160 } as const;

/** Names of colours that the style knows, so that they follow light, dark and paper. */
const COLOURS = {
  first: 'var(--accent)',
  second: 'var(--second)',
  failed: 'var(--failed)',
  filtered: 'var(--filtered)',
} as const;

interface Axis {
  readonly title: string;
  /** The least and the most that it shows. @default from 0 to the largest value */
  readonly domain?: readonly [least: number, most: number];
  /** As d3-format has it. @default `~s`: 1.2k */
  readonly format?: string;
}

/** One of several values that a chart shows at each place. */
interface Series {
  readonly name: string;
  readonly kind: keyof typeof COLOURS;
  /** One for each place; null where there is none: the line goes on from the one before to the next. */
  readonly values: readonly (number | null)[];
  /** As the table under the chart has them. @default the numbers */
  readonly texts?: readonly Piece[];
}

export interface Chart {
  /** Distinct on its page. */
  readonly id: string;
  readonly title: string;
  /** What it shows, in a sentence. */
  readonly description: string;
  readonly x: Axis & {
    /** Of steps, where they begin. */
    readonly values: readonly number[];
    /** Of steps, where the last one ends. */
    readonly end?: number;
    readonly texts: readonly Piece[];
  };
  readonly y: Axis;
  readonly series: readonly Series[];
  /** A value of `steps` is that of all its step. `areas` are steps that stand on each other. @default 'lines' */
  readonly form?: 'lines' | 'steps' | 'areas';
  /** Whether there is a line on which x and y are the same. @default false */
  readonly diagonal?: boolean;
  /** What is allowed, of `y`: a line across. @default none */
  readonly limit?: number | null;
}

/** A chart with its title, and its figures as a table for those who want them exactly, or do not see it. */
export async function chartFigure(chart: Chart): Promise<Html> {
  const { title, description, x, series } = chart;
  return html`<figure>
<figcaption><h3>${title}</h3><p class="muted">${description}</p></figcaption>
${await pictureOf(chart)}
${legend(chart)}
<details><summary>The figures of this chart</summary>${figureTable({
    caption: `${title}, the figures`,
    columns: [{ name: x.title }, ...series.map(({ name }) => ({ name, number: true }))],
    rows: x.texts.map((text, i) => [
      text,
      ...series.map(({ texts, values }) => texts?.[i] ?? rounded(values[i] ?? null)),
    ]),
  })}</details>
</figure>
`;
}

const rounded = (value: number | null): Piece =>
  value === null ? null : Number(value.toPrecision(3)).toLocaleString('en-US');

/** One line needs no legend: the title and the axis say what it is. */
function legend({ series, limit = null }: Chart): Html | null {
  if (series.length === 1 && limit === null) return null;
  return html`<ul class="legend">${series.map(({ name, kind }) => html`<li><i data-kind="${kind}"></i>${name}</li>`)}${
    limit === null ? null : html`<li><i data-kind="limit"></i>allowed: ${count(limit)}</li>`
  }</ul>`;
}

async function pictureOf(chart: Chart): Promise<Html> {
  const { id } = chart;
  const svg = await svgOf(specOf(chart));
  const { width, height } = SIZE;
  // Its own first tag sets a size in pixels, and would not say what it is a picture of.
  return html`<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="${id}-title ${id}-text">
<title id="${id}-title">${chart.title}</title><desc id="${id}-text">${chart.description}</desc>${foreignMarkup(
    svg.replace(/^<svg[^>]*>/, ''),
  )}`;
}

async function svgOf(spec: TopLevelSpec): Promise<string> {
  // Both together are most of what a page takes to be written, and no other command needs them.
  const [{ compile }, { parse, View }] = await Promise.all([import('vega-lite'), import('vega')]);
  const view = new View(parse(compile(spec).spec), { renderer: 'none' });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}

/**
 * What vega-lite draws. Only numbers and words of ours may go into it, no text of a row or a model: parts of it become code
 * when it is drawn.
 */
function specOf({ x, y, series, form = 'lines', diagonal = false, limit = null }: Chart): TopLevelSpec {
  const ends = x.end === undefined ? x.values : [...x.values, x.end];
  const values = series.flatMap(({ kind, values }, place) =>
    ends.flatMap((at, i) => {
      const value = values[Math.min(i, values.length - 1)] ?? null;
      return value === null ? [] : [{ x: at, y: value, kind, place }];
    }),
  );
  const interpolate = form === 'lines' ? 'linear' : 'step-after';
  const kinds = series.map(({ kind }) => kind);
  const axis = ({ title, format = '~s' }: Axis) => ({ title, format, tickCount: 5 });
  const scale = ({ domain }: Axis) => ({
    nice: domain === undefined,
    ...(domain && { domain: [...domain] }),
  });
  const points = form === 'lines' && x.values.length <= 20;
  return {
    ...SIZE,
    autosize: { type: 'fit', contains: 'padding' },
    padding: { left: 0, right: 4, top: 6, bottom: 0 },
    background: 'transparent',
    data: { values },
    encoding: {
      x: { field: 'x', type: 'quantitative', axis: { ...axis(x), grid: false }, scale: scale(x) },
      y: {
        field: 'y',
        type: 'quantitative',
        axis: axis(y),
        scale: scale(y),
        stack: form === 'areas' ? 'zero' : null,
      },
    },
    layer: [
      ...(diagonal
        ? [
            {
              data: { values: [0, 1].map((end) => ({ x: end, y: end })) },
              mark: {
                type: 'line' as const,
                stroke: 'var(--skipped)',
                strokeWidth: 1,
                strokeDash: [4, 3],
                aria: false,
              },
            },
          ]
        : []),
      ...(limit !== null
        ? [
            {
              data: { values: [{ y: limit }] },
              mark: {
                type: 'rule' as const,
                stroke: 'currentColor',
                strokeWidth: 1,
                strokeDash: [4, 3],
                aria: false,
              },
              encoding: { x: { value: 0 }, x2: { value: 'width' as const } },
            },
          ]
        : []),
      {
        mark:
          form === 'areas'
            ? { type: 'area', interpolate, aria: false }
            : {
                type: 'line',
                interpolate,
                strokeWidth: 1.75,
                point: points && { size: 28, filled: true },
                aria: false,
              },
        encoding: {
          color: {
            field: 'kind',
            type: 'nominal',
            scale: { domain: kinds, range: kinds.map((kind) => COLOURS[kind]) },
            legend: null,
          },
          order: { field: 'place', type: 'quantitative' },
        },
      },
    ],
    config: {
      font: 'inherit',
      view: { stroke: null },
      axis: {
        labelColor: 'currentColor',
        titleColor: 'currentColor',
        titleFontWeight: 400,
        labelFontSize: 11,
        titleFontSize: 11,
        titlePadding: 6,
        gridColor: 'var(--line)',
        domainColor: 'var(--skipped)',
        tickColor: 'var(--skipped)',
        tickSize: 4,
      },
      axisY: { domain: false, ticks: false },
    },
  };
}
