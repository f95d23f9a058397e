# Promptmill in a container; docker-compose.yml puts a fleet together, docs/containers.md explains it.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Without scripts: the package's own would build what is not copied yet, and no dependency needs its own.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json bundle.js ./
COPY src ./src
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-slim
ENV NODE_ENV=production
COPY --from=build /app/package.json /app/package.json
COPY --from=build /app/node_modules /app/node_modules
COPY --from=build /app/dist /app/dist
# Job files, inputs and outputs are mounted below /work; a volume that is mounted there for the first time takes over the owner.
RUN ln -s /app/dist/cli.js /usr/local/bin/promptmill \
  && mkdir -p /work/out /work/.promptmill \
  && chown -R node:node /work
WORKDIR /work
USER node
# Finish the calls in flight, commit, leave. As process 1 of a container it needs an init: `docker run --init`.
STOPSIGNAL SIGTERM
ENTRYPOINT ["promptmill"]
CMD ["--help"]
