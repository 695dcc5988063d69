/* A stub of libcuda.so.1: the few functions that the injection asks it, of two devices that do not exist. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Set by the stub of CUPTI, to be told of each call. */
void (*stub_on_call)(void);

int cuDriverGetVersion(int *version) {
    if (stub_on_call != NULL)
        stub_on_call();
    *version = STUB_MAJOR * 1000;
    return 0;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number < 2 ? 0 : 101;
}

int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, (size_t)length, "Stub %d", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? 9 : 0;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)1 << 30;
    return 0;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) {
    memset(uuid, 0x10 + device, 16);
    return 0;
}
