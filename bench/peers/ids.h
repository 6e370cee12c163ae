/* The file in which `shunt bench --peers` hands expert ids to the peers: this
 * head, then the ids, int32_t (steps, ranks, tokens, topk), and no more. */
#ifndef PEERS_IDS_H
#define PEERS_IDS_H

#include <stdint.h>

#define IDS_MAGIC INT64_C(0x3173646974756873) /* "shutids1" */

struct ids_head {
	int64_t magic;
	int64_t steps, ranks, tokens, topk, experts;
};

#endif
