/* The other side of an RPC device: a program that computes what a client sends it. */
#ifndef BUBBLESCOPE_GGML_RPC_SERVER_H
#define BUBBLESCOPE_GGML_RPC_SERVER_H

#include "ggml/devices.h"

/* Whether this process is one; told by its name. */
bool is_rpc_server(void);

/* Computes a graph for a client and tells when. The stage is called "rpc-server[HOST:PORT]" and has no
 * position: that, and which ubatch it is, the client knows. */
int compute_for_client(struct device *device, ggml_object backend, ggml_object graph);

#endif
