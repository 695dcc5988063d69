#include "ggml/json.h"

#include <stdio.h>
#include <string.h>

/* Room that is left for what closes the value. */
enum { RESERVE = 8 };

static bool has_room(const struct json *json, size_t more) {
    return json->length + more + RESERVE < sizeof json->text;
}

static void put(struct json *json, const char *text) {
    size_t length = strlen(text);
    if (has_room(json, length)) {
        memcpy(json->text + json->length, text, length + 1);
        json->length += length;
    }
}

static void separate(struct json *json) {
    if (!json->first)
        put(json, ",");
    json->first = false;
}

static void put_quoted(struct json *json, const char *text) {
    size_t length = text != NULL ? strlen(text) : 0;
    bool fits = has_room(json, 6 * length + 2);
    put(json, "\"");
    for (size_t i = 0; fits && i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        char escaped[8] = {(char)byte};
        if (byte < 0x20 || byte == '"' || byte == '\\')
            snprintf(escaped, sizeof escaped, "\\u%04x", byte);
        put(json, escaped);
    }
    put(json, "\"");
}

struct json json_begin(char opening) {
    struct json json = {.closing = (char)(opening == '[' ? ']' : opening == '{' ? '}' : 0), .first = true};
    const char text[2] = {opening, 0};
    put(&json, text);
    return json;
}

void json_add_key(struct json *json, const char *key) {
    separate(json);
    put_quoted(json, key);
    put(json, ":");
    json->first = true;
}

void json_add_text(struct json *json, const char *text) {
    separate(json);
    put_quoted(json, text);
}

void json_add_number(struct json *json, int64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    separate(json);
    put(json, text);
}

void json_add_true(struct json *json) {
    separate(json);
    put(json, "true");
}

const char *json_end(struct json *json) {
    if (json->closing != 0) {
        json->text[json->length++] = json->closing;
        json->text[json->length] = 0;
    }
    return json->text;
}
