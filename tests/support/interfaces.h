/* The network interfaces that getifaddrs() tells of in a test: those that the
 * simulator's devices belong to, instead of the machine's. */
#ifndef SUPPORT_INTERFACES_H
#define SUPPORT_INTERFACES_H

#define INTERFACES_MAX 16

/* From now on in this process: one for each IPv4 address, all up. 0: the
 * machine's again. No other thread is asking meanwhile. */
void interfaces_set(const char *const *addresses, int num_addresses);

#endif
