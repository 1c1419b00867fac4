// push_pull.c: a prefill worker and a decode worker in one program, in C against libvarve.
//
// cc -std=c11 push_pull.c $(pkg-config --cflags --libs varve) && ./a.out 127.0.0.1:7440
#include <stdio.h>
#include <stdlib.h>
#include <varve/varve_c.h>

enum { LAYERS = 8, SLOTS = 64, RUN = 16, PAGE = 16384, BLOCKS = 4, TOKENS = RUN * BLOCKS };
#define SECONDS(n) ((n) * 1000000000ull)

// As an engine has it: one tensor per layer, {K, V} x slots x page.
static unsigned char kv[LAYERS][2][SLOTS][PAGE];

static void check(varve_status status, const char* what) {
  if (status == VARVE_OK) return;
  fprintf(stderr, "%s: %s (%s)\n", what, varve_strerror(status), varve_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  varve_options options = {.struct_size = sizeof options, .name = "push_pull"};
  check(varve_options_set(&options, "address", argc > 1 ? argv[1] : "127.0.0.1:7440"), "address");
  varve_client* client = NULL;
  check(varve_open(&options, &client), "open");
  check(varve_wait_ready(client, SECONDS(5)), "is varved running? wait_ready");

  varve_layer layers[LAYERS];
  varve_layer_layout places[LAYERS];  // slot s: K at s * PAGE, V a whole K tensor behind
  const varve_rank rank = {layers, LAYERS, 0};
  for (int l = 0; l < LAYERS; ++l) layers[l] = (varve_layer){VARVE_LAYER_FULL, 2 * PAGE};
  const varve_format_desc desc = {.struct_size = sizeof desc, .type = VARVE_TYPE_BF16,
                                  .order = VARVE_ORDER_NHD, .tokens_per_block = RUN,
                                  .model = {42},  // the digest of the weights
                                  .lineage = "example", .ranks = &rank, .rank_count = 1};
  varve_format format;
  check(varve_format_register(client, &desc, &format), "format");
  const varve_region_desc memory = {.struct_size = sizeof memory, .data = kv, .bytes = sizeof kv};
  varve_region region;
  check(varve_region_register(client, &memory, &region), "region");
  for (int l = 0; l < LAYERS; ++l)
    places[l] = (varve_layer_layout){region, 2, l * sizeof kv[0], PAGE, sizeof kv[0][0]};
  const varve_layout_desc where = {.struct_size = sizeof where, .format = format,
                                   .layer_count = LAYERS, .layers = places};
  varve_layout layout;
  check(varve_layout_define(client, &where, &layout), "layout");

  uint32_t prompt[TOKENS];
  for (uint32_t t = 0; t < TOKENS; ++t) prompt[t] = 1000 + t;
  const varve_tokens tokens = {.struct_size = sizeof tokens, .format = format, .tokens = prompt,
                               .token_count = TOKENS};
  varve_id ids[BLOCKS];
  size_t count = 0;
  check(varve_base_ids(client, &tokens, ids, BLOCKS, &count), "base ids");

  // Prefill: the attention of layer l fills slots 0 .. 3 of its tensor, then they may leave.
  const uint32_t from[BLOCKS] = {0, 1, 2, 3}, to[BLOCKS] = {40, 13, 22, 31};
  const varve_push_request push = {.struct_size = sizeof push,
                                   .blocks = {ids, BLOCKS, layout, from, NULL, 0, 0}};
  varve_op op;
  check(varve_push_submit(client, &push, &op), "push");
  for (int l = 0; l < LAYERS; ++l) {
    for (int b = 0; b < BLOCKS; ++b) memset(kv[l][0][from[b]], 16 * l + b, PAGE);
    for (int b = 0; b < BLOCKS; ++b) memset(kv[l][1][from[b]], 128 + 16 * l + b, PAGE);
    check(varve_push_layer(client, op, (uint32_t)l), "push layer");
  }
  varve_completion done = {.struct_size = sizeof done};
  check(varve_wait(client, op, SECONDS(30), &done), "wait for the push");
  check(done.status, done.reason);
  printf("pushed %u of %d blocks, durable\n", done.ok_count, BLOCKS);
  varve_completion_clear(&done);

  // Decode: how much of the prompt is there? Then layer by layer, as attention needs them.
  const varve_match_request match = {.struct_size = sizeof match, .format = format, .ids = ids,
                                     .count = BLOCKS, .lease_ms = 10000};
  check(varve_match_submit(client, &match, &op), "match");
  check(varve_wait(client, op, SECONDS(5), &done), "wait for the match");
  check(done.hit_count > 0 ? done.status : VARVE_MISS, done.reason);
  const uint32_t hits = done.hit_count;
  const varve_pull_request pull = {.struct_size = sizeof pull, .lease = done.lease,
                                   .blocks = {ids, hits, layout, to, NULL, 0, 0}};
  varve_completion_clear(&done);
  check(varve_pull_submit(client, &pull, &op), "pull");
  for (uint32_t l = 0; l < LAYERS; ++l) {
    uint8_t here = 0;  // a bit per block: those without are to be recomputed
    check(varve_wait_layer(client, op, l, SECONDS(10), &here, sizeof here), "layer");
    for (uint32_t b = 0; b < hits; ++b) {
      if (memcmp(kv[l][0][to[b]], kv[l][0][from[b]], PAGE) != 0 ||
          memcmp(kv[l][1][to[b]], kv[l][1][from[b]], PAGE) != 0)
        check(VARVE_CORRUPT, "compare");
    }
  }
  check(varve_wait(client, op, SECONDS(10), &done), "wait for the pull");
  printf("pulled %u of %u hits, %d layers, %llu bytes; first layer after %llu us\n", done.ok_count,
         hits, LAYERS, (unsigned long long)done.bytes,
         (unsigned long long)done.first_layer_ns / 1000);
  varve_completion_clear(&done);
  check(varve_lease_release(client, pull.lease), "release");
  check(varve_close(client), "close");
  varve_free(client);
  return 0;
}
