"""The cards that people serve models with, and what their vendor publishes about them.

Throughput is dense TFLOPS (TOPS for int8) with accumulation in FP32, as engines do it: half of what is
printed "with sparsity". GeForce cards halve 16-bit and FP8 throughput when they accumulate in FP32. Of most
RTX PRO cards the vendor publishes FP4 only; on the one of which its whitepaper has all, FP8 is half of that
and 16 bits a quarter.

A figure is there if it was found in the document that is named, or in public copies and tables of what it
says. One that is published there and was not found is None, and `Card.unconfirmed` names it.

Compute capabilities are those of "CUDA GPU Compute Capability", developer.nvidia.com/cuda-gpus, and of its
page of legacy GPUs; a SUPER, NVL or Max-Q that they do not list has that of the card it is a variant of.
"""

from __future__ import annotations

from dataclasses import dataclass

from bubblescope.doctor.capability import Capability


@dataclass(frozen=True)
class Card:
    """One product.

    name: without the vendor; words that NVML adds ("NVIDIA", "GeForce") are left out.
    capability: CUDA compute capability.
    memory_gib, bandwidth_gbs: gibibytes; gigabytes a second.
    half, fp8, fp4, int8: dense throughput, see above; `half` is FP16, and BF16 from 8.0 on. None: the vendor
        publishes no such figure, the card has no units for it, or it is unconfirmed.
    link: the fastest way to another card; NVLink counts both directions, PCIe each.
    source: where the vendor publishes it.
    unconfirmed: the fields that are None although there is such a figure.
    """

    name: str
    capability: Capability
    memory_gib: int
    bandwidth_gbs: int | None
    half: float | None
    fp8: float | None
    fp4: float | None
    int8: float | None
    link: str | None
    source: str
    unconfirmed: tuple[str, ...] = ()


_PASCAL = "NVIDIA Tesla P40 data sheet, 2016"
_VOLTA = "NVIDIA V100 data sheet, us-1165301-r5"
_T4 = "NVIDIA T4 data sheet, 2019"
_TURING = "NVIDIA Turing GPU Architecture whitepaper, 2018"
_RTX_8000 = "NVIDIA Quadro RTX 8000 data sheet"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper v2.1, 2021"
_A100 = "NVIDIA A100 data sheet, nvidia.com/en-us/data-center/a100"
_A10 = "NVIDIA A10 data sheet, nvidia.com/en-us/data-center/products/a10-gpu"
_A30 = "NVIDIA A30 data sheet, nvidia.com/en-us/data-center/products/a30-gpu"
_A5000 = "NVIDIA RTX A5000 data sheet, 2021; half of the tensor performance printed there"
_A4000 = "NVIDIA RTX A4000 data sheet, 2021; half of the tensor performance printed there"
_GEFORCE_30 = "NVIDIA GeForce RTX 30 series, nvidia.com/en-us/geforce/graphics-cards/compare"
_ADA = "NVIDIA Ada GPU Architecture whitepaper v2.1, 2023"
_6000_ADA = (
    "NVIDIA RTX 6000 Ada Generation data sheet, half of the tensor performance printed there; FP16 and "
    "INT8: NVIDIA Ada GPU Architecture whitepaper for professional visualization v1.1"
)
_GEFORCE_40 = (
    "NVIDIA GeForce RTX 40 series, nvidia.com/en-us/geforce/graphics-cards/compare; INT8 is half of the AI "
    "TOPS printed there"
)
_4500_ADA = "NVIDIA RTX 4500 Ada Generation data sheet, 2023; half of the tensor performance printed there"
_4000_ADA = "NVIDIA RTX 4000 Ada Generation data sheet, 2023; half of the tensor performance printed there"
_5000_ADA = "NVIDIA RTX 5000 Ada Generation data sheet, 2023; half of the tensor performance printed there"
_L4 = "NVIDIA L4 data sheet, nvidia.com/en-us/data-center/l4"
_L40 = "NVIDIA L40 data sheet, nvidia.com/en-us/data-center/l40"
_L40S = "NVIDIA L40S data sheet, nvidia.com/en-us/data-center/l40s"
_H100 = (
    "NVIDIA H100 data sheet, nvidia.com/en-us/data-center/h100, and NVIDIA H100 Tensor Core GPU Architecture "
    "whitepaper"
)
_H200 = "NVIDIA H200 data sheet, nvidia.com/en-us/data-center/h200"
_GH200 = "NVIDIA GH200 Grace Hopper Superchip data sheet, 3773000"
_BLACKWELL = "NVIDIA Blackwell data sheet, 3384703, HGX B200 per GPU; half of what is printed with sparsity"
_ULTRA = "NVIDIA Blackwell Ultra data sheet, 2025, HGX B300; FP4 as an eighth of the HGX platform's"
_SPARK = (
    "NVIDIA DGX Spark, nvidia.com/en-us/products/workstations/dgx-spark; half of the PFLOPS printed there"
)
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper v1.1, 2025"
_PRO_BLACKWELL = "NVIDIA RTX PRO Blackwell GPU Architecture whitepaper v1.0, 2025"
_PRO_SERVER = (
    "NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet, 2025; half of the PFLOPS printed there"
)
_PRO_SHEET = "NVIDIA RTX PRO Blackwell data sheets, 2025; FP4 is half of the AI TOPS printed there"
_GEFORCE_50 = (
    "NVIDIA GeForce RTX 50 series, nvidia.com/en-us/geforce; FP4 is half of the AI TOPS printed there"
)

_PCIE3 = "PCIe 3.0 x16, 16 GB/s"
_PCIE4 = "PCIe 4.0 x16, 32 GB/s"
_PCIE4_X8 = "PCIe 4.0 x8, 16 GB/s"
_PCIE5 = "PCIe 5.0 x16, 64 GB/s"
_PCIE5_X8 = "PCIe 5.0 x8, 32 GB/s"
_BRIDGE = "NVLink bridge, 112.5 GB/s"
_BRIDGE_20 = "NVLink bridge, 100 GB/s"

# What of these cards is published and was not found.
_OF_NVL = ("half", "fp8", "int8", "link")
_OF_SERVER = ("bandwidth_gbs", "half", "fp4", "link")


def _nvlink(gbs: int) -> str:
    return f"NVLink, {gbs} GB/s"


CARDS = (
    # Pascal, Volta and Turing: too old for much of this, and still in many rigs.
    Card("P40", (6, 1), 24, 346, None, None, None, 47, _PCIE3, _PASCAL),
    Card("V100 16GB", (7, 0), 16, 900, 125, None, None, None, _nvlink(300), _VOLTA),
    Card("V100 32GB", (7, 0), 32, 900, 125, None, None, None, _nvlink(300), _VOLTA),
    Card("T4", (7, 5), 16, 320, 65, None, None, 130, _PCIE3, _T4),
    Card("RTX 2080 Ti", (7, 5), 11, 616, None, None, None, None, _BRIDGE_20, _TURING, ("half", "int8")),
    Card("Quadro RTX 8000", (7, 5), 48, 672, 130.5, None, None, None, _BRIDGE_20, _RTX_8000),
    # Ampere
    Card("A100 40GB", (8, 0), 40, 1555, 312, None, None, 624, _nvlink(600), _A100),
    Card("A100 80GB", (8, 0), 80, 2039, 312, None, None, 624, _nvlink(600), _A100),
    Card("A100 80GB PCIe", (8, 0), 80, 1935, 312, None, None, 624, "NVLink bridge, 600 GB/s", _A100),
    Card("A30", (8, 0), 24, 933, 165, None, None, 330, None, _A30, ("link",)),
    Card("A40", (8, 6), 48, 696, 149.7, None, None, 299.3, _BRIDGE, _GA102),
    Card("A10", (8, 6), 24, 600, 125, None, None, 250, _PCIE4, _A10),
    Card("RTX A6000", (8, 6), 48, 768, 154.8, None, None, 309.7, _BRIDGE, _GA102),
    Card("RTX A5000", (8, 6), 24, 768, 111.1, None, None, None, None, _A5000, ("link",)),
    Card("RTX A4000", (8, 6), 16, 448, 76.7, None, None, None, _PCIE4, _A4000),
    Card("RTX 3090 Ti", (8, 6), 24, 1008, 79.9, None, None, 319.5, None, _ADA, ("link",)),
    Card("RTX 3090", (8, 6), 24, 936, 71.2, None, None, 284.7, _BRIDGE, _GA102),
    Card("RTX 3080", (8, 6), 10, 760, 59.5, None, None, 238.1, _PCIE4, _GA102),
    Card("RTX 3080 Ti", (8, 6), 12, 912, None, None, None, None, _PCIE4, _GEFORCE_30),
    Card("RTX 3060", (8, 6), 12, 360, None, None, None, None, _PCIE4, _GEFORCE_30),
    # Ada
    Card("L4", (8, 9), 24, 300, 121, 242.5, None, 242.5, _PCIE4, _L4),
    Card("L40", (8, 9), 48, 864, 181, 362, None, 362, _PCIE4, _L40),
    Card("L40S", (8, 9), 48, 864, 362, 733, None, 733, _PCIE4, _L40S),
    Card("RTX 6000 Ada", (8, 9), 48, 960, 364.2, 728.5, None, 728.5, _PCIE4, _6000_ADA),
    Card("RTX 5000 Ada", (8, 9), 32, 576, None, 522.2, None, None, _PCIE4, _5000_ADA),
    Card("RTX 4500 Ada", (8, 9), 24, 432, None, 317, None, None, _PCIE4, _4500_ADA),
    Card("RTX 4000 Ada", (8, 9), 20, 360, None, 214, None, None, _PCIE4, _4000_ADA),
    Card("RTX 4090", (8, 9), 24, 1008, 165.2, 330.3, None, 660.6, _PCIE4, _ADA),
    Card("RTX 4080 SUPER", (8, 9), 16, 736, None, None, None, 418, _PCIE4, _GEFORCE_40),
    Card("RTX 4080", (8, 9), 16, 717, 97.5, 194.9, None, 389.9, _PCIE4, _ADA),
    Card("RTX 4070 Ti SUPER", (8, 9), 16, 672, None, None, None, 353, _PCIE4, _GEFORCE_40),
    Card("RTX 4070 Ti", (8, 9), 12, 504, 80.2, 160.4, None, 320.7, _PCIE4, _ADA),
    Card("RTX 4070 SUPER", (8, 9), 12, 504, None, None, None, None, _PCIE4, _GEFORCE_40, ("int8",)),
    Card("RTX 4070", (8, 9), 12, 504, None, None, None, 233, _PCIE4, _GEFORCE_40),
    Card("RTX 4060 Ti 8GB", (8, 9), 8, 288, None, None, None, 176.5, _PCIE4_X8, _GEFORCE_40),
    Card("RTX 4060 Ti 16GB", (8, 9), 16, 288, None, None, None, 176.5, _PCIE4_X8, _GEFORCE_40),
    # Hopper
    Card("H100", (9, 0), 80, 3350, 989.4, 1978.9, None, 1978.9, _nvlink(900), _H100),
    Card("H100 PCIe", (9, 0), 80, 2039, 756, 1513, None, 1513, "NVLink bridge, 600 GB/s", _H100),
    Card("H100 NVL", (9, 0), 94, 3900, None, None, None, None, None, _H100, _OF_NVL),
    Card("H200", (9, 0), 141, 4800, 989.5, 1979, None, 1979, _nvlink(900), _H200),
    Card("H200 NVL", (9, 0), 141, 4800, None, None, None, None, None, _H200, _OF_NVL),
    Card("GH200 96GB", (9, 0), 96, 4000, 990, 1979, None, 1979, None, _GH200, ("link",)),
    Card("GH200 144GB", (9, 0), 144, 4900, 990, 1979, None, 1979, None, _GH200, ("link",)),
    # Blackwell of the data centre: 10.x. Its kernels do not run on 12.x, nor the other way round.
    Card("B200", (10, 0), 180, 7700, 2250, 4500, 9000, 4500, _nvlink(1800), _BLACKWELL),
    Card("B300", (10, 3), 270, 7700, 2250, 4500, 13500, None, _nvlink(1800), _ULTRA),
    # Blackwell of workstations and consumers: 12.x.
    Card("RTX PRO 6000", (12, 0), 96, 1792, 503.8, 1007.6, 2015.2, 1007.6, _PCIE5, _PRO_BLACKWELL),
    Card("RTX PRO 6000 Max-Q", (12, 0), 96, 1792, None, None, None, None, _PCIE5, _PRO_SHEET, ("fp4",)),
    Card("RTX PRO 6000 Server", (12, 0), 96, None, None, None, None, None, None, _PRO_SERVER, _OF_SERVER),
    Card("RTX PRO 5000 48GB", (12, 0), 48, 1344, None, None, 1032, None, _PCIE5, _PRO_SHEET),
    Card("RTX PRO 5000 72GB", (12, 0), 72, 1344, None, None, 1032, None, _PCIE5, _PRO_SHEET),
    Card("RTX PRO 4500", (12, 0), 32, 896, None, None, 843.5, None, _PCIE5, _PRO_SHEET),
    Card("RTX PRO 4000", (12, 0), 24, 672, None, None, None, None, _PCIE5, _PRO_SHEET, ("fp4",)),
    Card("RTX 5090", (12, 0), 32, 1792, 209.5, 419, 1676, 838, _PCIE5, _RTX_BLACKWELL),
    Card("RTX 5080", (12, 0), 16, 960, 112.6, 225.1, 900.4, 450.2, _PCIE5, _RTX_BLACKWELL),
    Card("RTX 5070 Ti", (12, 0), 16, 896, 87.9, 175.8, 703, 351.5, _PCIE5, _RTX_BLACKWELL),
    Card("RTX 5070", (12, 0), 12, 672, 61.7, 123.5, 494, 246.9, _PCIE5, _RTX_BLACKWELL),
    Card("RTX 5060 Ti", (12, 0), 16, 448, None, None, 379.5, None, _PCIE5_X8, _GEFORCE_50),
    Card("GB10", (12, 1), 128, 273, None, None, 500, None, "ConnectX-7, 25 GB/s", _SPARK),
)
