/* Where the ranks of a local job meet, and their secret. */
#ifndef BENCH_RENDEZVOUS_H
#define BENCH_RENDEZVOUS_H

struct rendezvous {
	char address[32]; /* 127.0.0.1:PORT */
	char key[33];     /* random, hexadecimal */
	int socket;       /* holds the port; closed by rendezvous_close() */
};

/*
 * Takes a free port and makes a key. The port stays bound, without listening,
 * until rendezvous_close(): nobody else is given it meanwhile, while rank 0
 * may listen there because both sockets say SO_REUSEADDR.
 * Returns 0, or -1 with errno set.
 */
int rendezvous_open(struct rendezvous *rendezvous);
void rendezvous_close(struct rendezvous *rendezvous);

#endif
