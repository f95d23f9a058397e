/** The text of a completion without the white space around it, which the service often sends. */
export function cleaned(text: string | null): string | null {
  return text === null ? null : text.trim();
}

/** The beginning of a text, for a message about it. */
export function excerpt(text: string | null): string {
  const whole = cleaned(text) ?? '';
  if (whole === '') return 'the empty text';
  return `the text ${JSON.stringify(whole.length > 60 ? `${whole.slice(0, 60)}…` : whole)}`;
}
