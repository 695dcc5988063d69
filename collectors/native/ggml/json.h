/* Small JSON values for facts. What is too long is cut to an empty text. */
#ifndef BUBBLESCOPE_GGML_JSON_H
#define BUBBLESCOPE_GGML_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char text[32768];
    size_t length;
    char closing;
    bool first;
};

/* A value that is a list '[', an object '{', or, with 0, a single one. */
struct json json_begin(char opening);
void json_add_key(struct json *json, const char *key);
void json_add_text(struct json *json, const char *text);
void json_add_number(struct json *json, int64_t number);
void json_add_true(struct json *json);
const char *json_end(struct json *json);

#endif
