/* Service levels; see verbs_path.h. */
#include "transport/verbs_path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

#define SELECT(selector, value) ((uint8_t)((selector) << 6 | ((value)&0x3f)))

static enum shunt_status unsupported(
	const struct verbs_lane *lane, const char *why)
{
	const struct far *far = lane->link->far;

	return error_set(SHUNT_UNSUPPORTED,
		"rank %d: rdma_service_level=%d, but %s on %s; use -1 (the "
		"kernel's choice), or rdma_traffic_class",
		far->rank, far->config.service_level, why, lane->device->name);
}

enum shunt_status path_keep(struct verbs_lane *lane)
{
	const struct rdma_route *route = &lane->id->route;
	const struct ibv_sa_path_rec *from = route->path_rec;
	struct ibv_path_record *to = &lane->path.path;

	if (route->num_paths < 1 || !from)
		return unsupported(lane, "there are no paths with levels");
	lane->path = (struct ibv_path_data){
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
			 IBV_PATH_FLAG_BIDIRECTIONAL,
	};
	to->dgid = from->dgid;
	to->sgid = from->sgid;
	to->dlid = from->dlid;
	to->slid = from->slid;
	to->flowlabel_hoplimit =
		htonl(ntohl(from->flow_label) << 8 | from->hop_limit);
	to->tclass = from->traffic_class;
	to->reversible_numpath = 1 << 7 | 1;
	to->pkey = from->pkey;
	to->qosclass_sl =
		htons((uint16_t)lane->link->far->config.service_level);
	to->mtu = SELECT(from->mtu_selector, from->mtu);
	to->rate = SELECT(from->rate_selector, from->rate);
	to->packetlifetime =
		SELECT(from->packet_life_time_selector, from->packet_life_time);
	to->preference = from->preference;
	lane->has_path = true;
	return SHUNT_OK;
}

enum shunt_status path_give(struct verbs_lane *lane)
{
	if (verbs_api()->cm_set_option(lane->id, RDMA_OPTION_IB,
		    RDMA_OPTION_IB_PATH, &lane->path, sizeof(lane->path)) == 0)
		return SHUNT_OK;
	return unsupported(lane, strerror(errno));
}

void path_look(const struct verbs_lane *lane)
{
	int32_t wanted = lane->link->far->config.service_level;
	struct ibv_qp_init_attr initial;
	struct ibv_qp_attr used;

	if (lane->has_path &&
		verbs_api()->query_qp(
			lane->id->qp, &used, IBV_QP_AV, &initial) == 0 &&
		used.ah_attr.sl != wanted)
		log_note(LOG_WARN,
			"rdma_service_level=%d, but %s says that it uses %d "
			"to rank %d",
			wanted, lane->device->name, used.ah_attr.sl,
			lane->link->peer.rank);
}
