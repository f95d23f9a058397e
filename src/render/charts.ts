import type { TopLevelSpec } from 'vega-lite';
import type { Chart } from './document.js';
import { foreignMarkup, type Html, html } from './markup.js';

/** CSS pixels: about the width of a phone, so that chart text has the same size everywhere. */
const SIZE = { width: 320, height: 160 } as const;

/** CSS variables of the style sheet, so that charts follow light, dark and print. */
const COLOURS = {
  first: 'var(--accent)',
  second: 'var(--second)',
  failed: 'var(--failed)',
  filtered: 'var(--filtered)',
} as const;

export async function pictureOf(chart: Chart): Promise<Html> {
  const { id } = chart;
  const svg = await svgOf(specOf(chart));
  const { width, height } = SIZE;
  // Replaces the root tag, which sets a size in pixels and has no title.
  return html`<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="${id}-title ${id}-text">
<title id="${id}-title">${chart.title}</title><desc id="${id}-text">${chart.description}</desc>${foreignMarkup(
    svg.replace(/^<svg[^>]*>/, ''),
  )}`;
}

async function svgOf(spec: TopLevelSpec): Promise<string> {
  // Loaded late: they are most of the time that a page takes, and no other command needs them.
  const [{ compile }, { parse, View }] = await Promise.all([import('vega-lite'), import('vega')]);
  const view = new View(parse(compile(spec).spec), { renderer: 'none' });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}

/** Only numbers and words of ours, no text of a row or a model: vega-lite makes code of parts of it. */
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
  const axis = ({ title, format = '~s' }: Chart['y']) => ({ title, format, tickCount: 5 });
  const scale = ({ domain }: Chart['y']) => ({
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
