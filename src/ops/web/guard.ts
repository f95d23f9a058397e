import { BlockList, isIP } from 'node:net';
import basicAuth from '@fastify/basic-auth';
import helmet, { type FastifyHelmetOptions } from '@fastify/helmet';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Login, LoginLimiter } from './login.js';

/** Need no login: they tell a supervisor whether the process works, and nothing else. */
const OPEN = new Set(['/healthz', '/readyz']);

/** For Promptmill's own pages: nothing inline, nothing from elsewhere. */
const POLICY = {
  defaultSrc: ["'none'"],
  scriptSrc: ["'self'"],
  styleSrc: ["'self'"],
  connectSrc: ["'self'"],
  imgSrc: ["'self'", 'data:'],
  baseUri: ["'none'"],
  formAction: ["'none'"],
  frameAncestors: ["'none'"],
};

const HEADERS: FastifyHelmetOptions = {
  contentSecurityPolicy: { useDefaults: false, directives: POLICY },
  xFrameOptions: { action: 'deny' },
  // The dashboard speaks plain HTTP; a proxy that adds TLS adds this too.
  strictTransportSecurity: false,
};

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

export function isLoopback(host: string): boolean {
  const version = isIP(host);
  if (version === 0) return host === 'localhost';
  return LOOPBACK.check(host, version === 4 ? 'ipv4' : 'ipv6');
}

/** Applies the login and the rules against other sites to every request, even for a missing page. */
export async function guard(app: FastifyInstance, host: string, login: Login): Promise<void> {
  const limiter = new LoginLimiter(login);
  await app.register(helmet, HEADERS);
  await app.register(basicAuth, {
    authenticate: { realm: 'Promptmill' },
    validate: async (user: string, password: string, request: FastifyRequest, reply: FastifyReply) => {
      const verdict = limiter.judge({
        user,
        password,
        address: request.ip,
        local: isLoopback(request.ip),
        device: deviceIn(request),
      });
      switch (verdict.kind) {
        case 'right':
          if (verdict.device !== null) reply.header('set-cookie', cookieOf(verdict.device));
          return;
        case 'wrong':
          throw refusal(401, 'wrong user or password');
        case 'too many': {
          const seconds = Math.ceil(verdict.waitMs / 1000);
          reply.header('retry-after', seconds);
          throw refusal(429, `too many wrong passwords; try again in ${seconds} s`);
        }
      }
    },
  });

  app.addHook('onRequest', (request, reply, done) => {
    reply.header('cache-control', 'no-store');
    if (isOpen(request)) done();
    else done(isLoopback(host) && !isLoopback(nameIn(request)) ? strangeName(request) : undefined);
  });
  app.addHook('onRequest', (request, reply, done) => {
    if (isOpen(request)) done();
    else app.basicAuth(request, reply, done);
  });
  // Nothing here changes anything, so another site cannot use a logged-in browser to change something.
  app.addHook('onRequest', (request, _reply, done) => {
    const reads = request.method === 'GET' || request.method === 'HEAD';
    done(reads ? undefined : refusal(405, 'the dashboard only shows; it changes nothing'));
  });
}

/** Identifies a browser that has logged in. */
const COOKIE = 'promptmill_device';
/** In seconds: 30 days. */
const COOKIE_S = 30 * 24 * 3_600;

const cookieOf = (device: string): string =>
  `${COOKIE}=${device}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${COOKIE_S}`;

function deviceIn({ headers }: FastifyRequest): string | undefined {
  const [, device] = /(?:^|;\s*)promptmill_device=([\w.]{1,200})(?:;|$)/.exec(headers.cookie ?? '') ?? [];
  return device;
}

const isOpen = ({ url }: FastifyRequest): boolean => OPEN.has(url.replace(/\?.*/s, ''));

/**
 * A page of another site can point its own name at this machine, and could then read the dashboard as its own
 * (DNS rebinding). The port does not matter: a tunnel has another one.
 */
function strangeName(request: FastifyRequest): Error {
  return refusal(
    421,
    `the dashboard listens on this machine only, and ${JSON.stringify(nameIn(request))} is no name of it; use localhost`,
  );
}

function nameIn(request: FastifyRequest): string {
  const host = request.headers.host ?? '';
  return host
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
}

function refusal(statusCode: number, message: string): Error {
  return Object.assign(new Error(message), { statusCode });
}
