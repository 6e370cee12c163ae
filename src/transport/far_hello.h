/* What ranks of other hosts must know of a rank to connect to it: a part of
 * struct peer_hello. far.h makes and reads it. */
#ifndef TRANSPORT_FAR_HELLO_H
#define TRANSPORT_FAR_HELLO_H

#include <stdint.h>

/* Plain data, the same layout on every host; all zero if the rank has no
 * device. Whoever receives one hands it to far_connect(), which checks it. */
struct far_hello {
	uint8_t bytes[160];
};

#endif
