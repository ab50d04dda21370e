/* The ceiling of libvips: threads that only make thumbnails, encode and write.
 *
 *   vips_loop THREADS FORMAT QUALITY EFFORT JOBS
 *
 * FORMAT is jpeg, png, webp or avif; png ignores QUALITY, and all but avif ignore EFFORT. A line of JOBS is a file, then pairs of box and output, all separated by tabs. Each different file is read
 * once, and everything is in memory before the clock starts: the program answers "loaded" to the first line of
 * its standard input, and does the work after the second. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vips/vips.h>

typedef struct {
    char *fields;
    void *data;
    size_t length;
} Job;

static Job *jobs;
static size_t count;
static atomic_size_t next;
static atomic_int failed;
static const char *format;
static int quality;
static int effort;

static int encode(VipsImage *image, void **encoded, size_t *length)
{
    if (!strcmp(format, "png"))
        return vips_pngsave_buffer(image, encoded, length, "strip", TRUE, NULL);
    if (!strcmp(format, "webp"))
        return vips_webpsave_buffer(image, encoded, length, "Q", quality, "strip", TRUE, NULL);
    if (!strcmp(format, "avif"))
        return vips_heifsave_buffer(image, encoded, length, "compression", VIPS_FOREIGN_HEIF_COMPRESSION_AV1, "Q",
                                    quality, "effort", effort, "strip", TRUE, NULL);
    double white = 255;
    VipsArrayDouble *background = vips_array_double_new(&white, 1);
    int result = vips_jpegsave_buffer(image, encoded, length, "Q", quality, "background", background, "strip", TRUE,
                                      NULL);
    vips_area_unref(VIPS_AREA(background));
    return result;
}

static int render(const Job *job, const char *box, const char *output)
{
    VipsImage *image = NULL;
    void *encoded = NULL;
    size_t length = 0;
    int size = atoi(box);
    if (vips_thumbnail_buffer(job->data, job->length, &image, size, "height", size, "size", VIPS_SIZE_DOWN, NULL))
        return -1;
    int result = encode(image, &encoded, &length);
    g_object_unref(image);
    if (result)
        return -1;
    FILE *file = fopen(output, "wb");
    result = file && fwrite(encoded, 1, length, file) == length ? 0 : -1;
    if (file && fclose(file))
        result = -1;
    g_free(encoded);
    return result;
}

static void *work(void *unused)
{
    (void)unused;
    for (;;) {
        size_t index = atomic_fetch_add(&next, 1);
        if (index >= count || atomic_load(&failed))
            break;
        char *rest = NULL;
        for (char *box = strtok_r(jobs[index].fields, "\t", &rest); box; box = strtok_r(NULL, "\t", &rest)) {
            char *output = strtok_r(NULL, "\t", &rest);
            if (!output || render(&jobs[index], box, output)) {
                fprintf(stderr, "%s: %s\n", output ? output : "no output", vips_error_buffer());
                atomic_store(&failed, 1);
                break;
            }
        }
    }
    vips_thread_shutdown();
    return NULL;
}

static void load(const char *path)
{
    char *text = NULL;
    GError *error = NULL;
    GHashTable *files = g_hash_table_new(g_str_hash, g_str_equal);
    if (!g_file_get_contents(path, &text, NULL, &error)) {
        fprintf(stderr, "%s\n", error->message);
        exit(66);
    }
    size_t capacity = 1024;
    jobs = malloc(capacity * sizeof *jobs);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *tab = strchr(line, '\t');
        if (!tab)
            continue;
        *tab = 0;
        if (count == capacity)
            jobs = realloc(jobs, (capacity *= 2) * sizeof *jobs);
        GBytes *bytes = g_hash_table_lookup(files, line);
        if (!bytes) {
            char *data = NULL;
            gsize length = 0;
            if (!g_file_get_contents(line, &data, &length, &error)) {
                fprintf(stderr, "%s\n", error->message);
                exit(66);
            }
            bytes = g_bytes_new_take(data, length);
            g_hash_table_insert(files, line, bytes);
        }
        gsize length = 0;
        void *data = (void *)g_bytes_get_data(bytes, &length);
        jobs[count++] = (Job){tab + 1, data, length};
    }
}

int main(int argc, char **argv)
{
    char line[16];
    if (argc != 6) {
        fprintf(stderr, "usage: vips_loop THREADS FORMAT QUALITY EFFORT JOBS\n");
        return 64;
    }
    if (VIPS_INIT(argv[0]))
        return 70;
    vips_concurrency_set(1);
    vips_cache_set_max(0);
    int threads = atoi(argv[1]);
    format = argv[2];
    quality = atoi(argv[3]);
    effort = atoi(argv[4]);
    load(argv[5]);
    if (!fgets(line, sizeof line, stdin))
        return 74;
    puts("loaded");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 74;
    pthread_t *all = calloc((size_t)threads, sizeof *all);
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    puts(atomic_load(&failed) ? "failed" : "done");
    fflush(stdout);
    return atomic_load(&failed) ? 70 : 0;
}
