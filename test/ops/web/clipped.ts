import type { Page } from 'playwright-core';

/** Widths at which every page is looked at, in pixels: a telephone, a laptop, a large screen. */
export const WIDTHS = [390, 1280, 1920] as const;

/**
 * Texts of a page that a reader does not see whole: parts of them are outside an element that hides what overflows it, or
 * outside the window. What is hidden on purpose (for screen readers, folded away) is none.
 */
export const clippedTexts = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    texts: for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const text = node.data.trim();
      const parent = node.parentElement;
      if (text === '' || !parent.checkVisibility({ visibilityProperty: true }) || parent.closest('.skip, script, style')) continue;
      // For screen readers.
      for (let box = parent; box !== null; box = box.parentElement) if (getComputedStyle(box).clipPath !== 'none') continue texts;
      const range = document.createRange();
      range.selectNodeContents(node);
      const rects = [...range.getClientRects()].filter(({ width }) => width > 0);
      let clips = [{ left: 0, right: document.documentElement.clientWidth, top: -Infinity, bottom: Infinity, is: 'window' }];
      for (let box = parent; box !== document.documentElement; box = box.parentElement) {
        const style = getComputedStyle(box);
        if (box instanceof SVGElement ? box.ownerSVGElement !== null || style.overflowX === 'visible' : style.overflowX === 'visible' && style.overflowY === 'visible') continue;
        clips.push({ ...box.getBoundingClientRect().toJSON(), is: box.className || box.tagName });
      }
      const outside = clips.find((clip) => rects.some((rect) =>
        rect.left < clip.left - 1 || rect.right > clip.right + 1 || rect.top < clip.top - 1 || rect.bottom > clip.bottom + 1));
      if (outside !== undefined) found.push(text.slice(0, 60) + ' (in ' + outside.is + ')');
    }
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) found.push('the page scrolls to ' + scrollWidth + ' px');
    return found;
  })()`);
