"""Processes that lose each other, and kernels that fail."""

from __future__ import annotations

from bubblescope.doctor.failures.failure import failure

COMMUNICATION = (
    failure(
        "shared-memory",
        r"Error while creating shared memory segment /dev/shm/nccl-",
        "NCCL got no shared memory",
        "/dev/shm is full, or small as in a container by default",
        "docker --ipc=host or --shm-size=16g; remove what is left over in /dev/shm",
        "nccl misc/shmutils.cc; MiniMax-AI/MiniMax-01#42, NVIDIA/nccl#290",
    ),
    failure(
        "illegal-memory-access",
        r"CUDA error: an illegal memory access was encountered",
        "A kernel on a GPU reached for memory that is not its own",
        "that is a fault of a kernel, and stands where it was noticed, often later than where it happened",
        "CUDA_LAUNCH_BLOCKING=1 shows where; another --attention-backend, --enforce-eager, a newer engine",
        "torch; vllm#25650",
    ),
    failure(
        "nccl-timeout",
        r"Watchdog caught collective operation timeout: WorkNCCL\([^)\n]{0,80}OpType=(?P<operation>\w{2,30})"
        r"[^\n]{0,120}?Timeout\(ms\)=(?P<ms>[0-9]{1,9})",
        "A rank waited in vain for another ({operation}, {ms} ms)",
        "the other rank had died, hung, or took another way through the program",
        "look at what the other ranks said before; NCCL_P2P_DISABLE=1 tells whether the link between the "
        "cards is to blame",
        "torch ProcessGroupNCCL.cpp; vllm#12625, vllm#23448",
    ),
    failure(
        "nccl",
        r"NCCL error[^\n]{0,160}?(?P<error>unhandled (?:system|cuda) error|internal error"
        r"|remote process exited or there was a network error)",
        "NCCL could not connect the GPUs",
        "it says: {error}; often too little /dev/shm, a peer-to-peer link that does not work, a network "
        "interface that was not meant, or a rank that had died before",
        "NCCL_DEBUG=INFO names the call that failed; NCCL_P2P_DISABLE=1, NCCL_SOCKET_IFNAME, or docker "
        "--ipc=host",
        "vllm, sglang device_communicators/pynccl_wrapper.py; vllm#14093, sgl-project/sglang#4289",
    ),
)
