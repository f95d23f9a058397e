import { writeFileSync } from 'node:fs';
import { jobJsonSchema } from './job-schema.js';

/** Writes the JSON Schema of job files: `npm run schema`. A test checks that it is current. */
writeFileSync('docs/job.schema.json', `${JSON.stringify(jobJsonSchema(), null, 2)}\n`);
