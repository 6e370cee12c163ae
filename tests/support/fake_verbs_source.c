/* Sources of sends: what a device reads, and when it must not have changed. */
#include "support/fake_verbs_sim.h"

#include <stdlib.h>
#include <string.h>

/* Copies the source, which must not change until this send is completed. */
bool fake_gather(const struct fake_qp *qp, struct wqe *wqe)
{
	uint64_t at = 0;

	if (wqe->is_inline)
		return true;
	for (int s = 0; s < wqe->send.num_sge; s++)
		if (!fake_reaches(qp->qp.pd, wqe->sge[s].lkey, false,
			    wqe->sge[s].addr, wqe->sge[s].length, 0))
			return false;
	/* Aligned as the sources may be, for the sake of whole words. */
	free(wqe->data);
	wqe->data = malloc(wqe->bytes + 8);
	if (!wqe->data)
		abort();
	for (int s = 0; s < wqe->send.num_sge; s++) {
		fake_copy(wqe->data + at, (void *)(uintptr_t)wqe->sge[s].addr,
			wqe->sge[s].length);
		at += wqe->sge[s].length;
	}
	return true;
}

/* One look at each byte where the sender left it: did it change it? Words are
 * left out: a beat may be sent from where it lives. */
void fake_check_source(const struct fake_qp *qp, const struct wqe *wqe)
{
	uint64_t at = 0;

	if (wqe->is_inline || wqe->send.opcode == IBV_WR_RDMA_READ ||
		wqe->bytes <= 64)
		return;
	for (int s = 0; s < wqe->send.num_sge; s++) {
		if (!fake_reaches(qp->qp.pd, wqe->sge[s].lkey, false,
			    wqe->sge[s].addr, wqe->sge[s].length, 0))
			return;
		if (memcmp(wqe->data + at, (void *)(uintptr_t)wqe->sge[s].addr,
			    wqe->sge[s].length) != 0) {
			fake_misuse("a source of %llu bytes was changed before "
				    "its completion",
				(unsigned long long)wqe->bytes);
			return;
		}
		at += wqe->sge[s].length;
	}
}
