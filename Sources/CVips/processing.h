// Wrappers of the libvips calls that processors need, in the style of shim.h.
#pragma once
#include <string.h>
#include <vips/vips.h>

// MARK: - Alpha

static inline int megaton_vips_premultiply(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    return vips_premultiply(in, out, NULL);
}

static inline int megaton_vips_unpremultiply(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    return vips_unpremultiply(in, out, NULL);
}

static inline int megaton_vips_add_alpha(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    return vips_addalpha(in, out, NULL);
}

static inline int megaton_vips_bands(
    VipsImage *_Nonnull in, int first, int count, VipsImage *_Nullable *_Nonnull out) {
    return vips_extract_band(in, out, first, "n", count, NULL);
}

static inline int megaton_vips_join_bands(
    VipsImage *_Nonnull first, VipsImage *_Nonnull second, VipsImage *_Nullable *_Nonnull out) {
    return vips_bandjoin2(first, second, out, NULL);
}

/// The product of two 8-bit bands, in which 255 stands for 1.
static inline int megaton_vips_mask(
    VipsImage *_Nonnull in, VipsImage *_Nonnull mask, VipsImage *_Nullable *_Nonnull out) {
    VipsImage *product = NULL;
    if (vips_multiply(in, mask, &product, NULL)) return -1;
    int result = vips_linear1(product, out, 1.0 / 255.0, 0.5, "uchar", TRUE, NULL);
    g_object_unref(product);
    return result;
}

/// An 8-bit band times a factor between 0 and 1.
static inline int megaton_vips_fade(VipsImage *_Nonnull in, double factor, VipsImage *_Nullable *_Nonnull out) {
    return vips_linear1(in, out, factor, 0.5, "uchar", TRUE, NULL);
}

// MARK: - Samples

/// Rounds to 8 bits; a cast alone truncates.
static inline int megaton_vips_round_uchar(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    VipsImage *whole = NULL;
    if (vips_rint(in, &whole, NULL)) return -1;
    int result = vips_cast_uchar(whole, out, NULL);
    g_object_unref(whole);
    return result;
}

/// Declares one or two bands as gray, and three or four as sRGB, whatever the interpretation was.
static inline int megaton_vips_call_picture(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    return vips_copy(
        in, out, "interpretation", in->Bands < 3 ? VIPS_INTERPRETATION_B_W : VIPS_INTERPRETATION_sRGB, NULL);
}

/// A single color with the size and format of another image.
static inline int megaton_vips_solid(
    VipsImage *_Nonnull like, const double *_Nonnull color, int count, VipsImage *_Nullable *_Nonnull out) {
    *out = vips_image_new_from_image(like, color, count);
    return *out == NULL ? -1 : 0;
}

/// The lightness of each color, and alpha as it was.
static inline int megaton_vips_to_gray(VipsImage *_Nonnull in, VipsImage *_Nullable *_Nonnull out) {
    return vips_colourspace(in, out, VIPS_INTERPRETATION_B_W, NULL);
}

// MARK: - Text

/// Draws a line of text as a mask of one 8-bit band, no larger than its letters.
///
/// @param markup Text in Pango's markup: the caller escapes what must not be read as such.
/// @param resolution Dots per inch; at 72 the font has 24 pixels.
static inline int megaton_vips_text(
    const char *_Nonnull markup, int resolution, VipsImage *_Nullable *_Nonnull out) {
    return vips_text(out, markup, "font", "sans 24", "dpi", resolution, NULL);
}

// MARK: - Geometry

static inline int megaton_vips_place(
    VipsImage *_Nonnull in, int left, int top, int width, int height, const double *_Nonnull background, int count,
    VipsImage *_Nullable *_Nonnull out) {
    VipsArrayDouble *color = vips_array_double_new(background, count);
    int result = vips_embed(
        in, out, left, top, width, height, "extend", VIPS_EXTEND_BACKGROUND, "background", color, NULL);
    vips_area_unref(VIPS_AREA(color));
    return result;
}

/// Rotates clockwise by 1, 2 or 3 quarter turns.
static inline int megaton_vips_turn(VipsImage *_Nonnull in, int quarters, VipsImage *_Nullable *_Nonnull out) {
    VipsAngle angle = quarters == 1 ? VIPS_ANGLE_D90 : quarters == 2 ? VIPS_ANGLE_D180 : VIPS_ANGLE_D270;
    return vips_rot(in, out, angle, NULL);
}

/// Rotates clockwise by any angle; the canvas grows. Alpha must not be premultiplied, because libvips premultiplies
/// itself.
static inline int megaton_vips_rotate(
    VipsImage *_Nonnull in, double degrees, const double *_Nonnull background, int count,
    VipsImage *_Nullable *_Nonnull out) {
    VipsArrayDouble *color = vips_array_double_new(background, count);
    int result = vips_rotate(in, out, degrees, "background", color, NULL);
    vips_area_unref(VIPS_AREA(color));
    return result;
}

static inline int megaton_vips_flip(VipsImage *_Nonnull in, int vertical, VipsImage *_Nullable *_Nonnull out) {
    return vips_flip(in, out, vertical ? VIPS_DIRECTION_VERTICAL : VIPS_DIRECTION_HORIZONTAL, NULL);
}

static inline int megaton_vips_repeat(
    VipsImage *_Nonnull in, int across, int down, VipsImage *_Nullable *_Nonnull out) {
    return vips_replicate(in, out, across, down, NULL);
}

// MARK: - Filters

/// With libvips' own smallest amplitude, 0.2, the mask would end at 1.8 sigma, and blur as with 0.8 of it. With integer
/// coefficients, a mask as wide as this one makes even areas up to 2 % darker. A large sigma has a shorter mask, with
/// 0.95 of it, as its time is that of the mask.
static inline int megaton_vips_blur(VipsImage *_Nonnull in, double sigma, VipsImage *_Nullable *_Nonnull out) {
    VipsBandFormat format = vips_image_get_format(in);
    VipsImage *blurred = NULL, *rounded = NULL;
    double smallest = sigma > 10 ? 0.05 : 0.01;
    if (!vips_band_format_isint(format)) {
        return vips_gaussblur(in, out, sigma, "min_ampl", smallest, "precision", VIPS_PRECISION_FLOAT, NULL);
    }
    int result = vips_gaussblur(in, &blurred, sigma, "min_ampl", smallest, "precision", VIPS_PRECISION_FLOAT, NULL)
        || vips_rint(blurred, &rounded, NULL) || vips_cast(rounded, out, format, NULL);
    if (blurred) g_object_unref(blurred);
    if (rounded) g_object_unref(rounded);
    return result ? -1 : 0;
}

static inline int megaton_vips_sharpen(
    VipsImage *_Nonnull in, double sigma, double flat, double jagged, VipsImage *_Nullable *_Nonnull out) {
    return vips_sharpen(in, out, "sigma", sigma, "m1", flat, "m2", jagged, NULL);
}

/// Both images must have alpha.
static inline int megaton_vips_over(
    VipsImage *_Nonnull base, VipsImage *_Nonnull overlay, int x, int y, VipsImage *_Nullable *_Nonnull out) {
    return vips_composite2(base, overlay, out, VIPS_BLEND_MODE_OVER, "x", x, "y", y, NULL);
}

// MARK: - Operations by name

typedef enum {
    MEGATON_VIPS_INT,
    MEGATON_VIPS_DOUBLE,
    MEGATON_VIPS_DOUBLES,
    MEGATON_VIPS_BOOL,
    MEGATON_VIPS_NAME,
} megaton_vips_kind;

/// An argument of an operation; only the field of its kind is read.
typedef struct {
    const char *_Nonnull name;
    megaton_vips_kind kind;
    /// An integer or a boolean.
    int whole;
    double number;
    const double *_Nullable numbers;
    int count;
    /// A name from an enumeration.
    const char *_Nullable word;
} megaton_vips_argument;

/// Refuses an argument whose kind differs from the operation's declaration, because the setter would read another type.
static inline int megaton_vips_set_argument(
    VipsOperation *_Nonnull operation, const megaton_vips_argument *_Nonnull argument) {
    GParamSpec *spec = g_object_class_find_property(G_OBJECT_GET_CLASS(operation), argument->name);
    GType type = spec ? G_PARAM_SPEC_VALUE_TYPE(spec) : G_TYPE_INVALID;
    if (argument->kind == MEGATON_VIPS_INT && type == G_TYPE_INT) {
        g_object_set(operation, argument->name, argument->whole, NULL);
    } else if (argument->kind == MEGATON_VIPS_DOUBLE && type == G_TYPE_DOUBLE) {
        g_object_set(operation, argument->name, argument->number, NULL);
    } else if (argument->kind == MEGATON_VIPS_BOOL && type == G_TYPE_BOOLEAN) {
        g_object_set(operation, argument->name, argument->whole ? TRUE : FALSE, NULL);
    } else if (argument->kind == MEGATON_VIPS_NAME && spec && G_IS_PARAM_SPEC_ENUM(spec) && argument->word) {
        int value = vips_enum_from_nick("megaton", type, argument->word);
        if (value < 0) return -1;
        g_object_set(operation, argument->name, value, NULL);
    } else if (argument->kind == MEGATON_VIPS_DOUBLES && type == VIPS_TYPE_ARRAY_DOUBLE) {
        VipsArrayDouble *array = vips_array_double_new(argument->numbers, argument->count);
        g_object_set(operation, argument->name, array, NULL);
        vips_area_unref(VIPS_AREA(array));
    } else {
        vips_error("megaton", "the argument %s does not exist", argument->name);
        return -1;
    }
    return 0;
}

/// Runs an operation with one image as input, "in", and one as output, "out". The caller must check that the operation
/// is allowed.
static inline int megaton_vips_call(
    const char *_Nonnull name, VipsImage *_Nonnull in, const megaton_vips_argument *_Nullable arguments, int count,
    VipsImage *_Nullable *_Nonnull out) {
    VipsOperation *operation = vips_operation_new(name);
    if (operation == NULL) return -1;
    int result = 0;
    g_object_set(operation, "in", in, NULL);
    for (int index = 0; index < count && result == 0; index++)
        result = megaton_vips_set_argument(operation, &arguments[index]);
    if (result == 0) result = vips_cache_operation_buildp(&operation);
    if (result == 0) g_object_get(operation, "out", out, NULL);
    vips_object_unref_outputs(VIPS_OBJECT(operation));
    g_object_unref(operation);
    return result;
}

// MARK: - Available operations

static void *megaton_vips_find_forbidden(
    VipsObject *object, GParamSpec *spec, VipsArgumentClass *argument, VipsArgumentInstance *instance, void *found,
    void *unused) {
    (void) object, (void) instance, (void) unused;
    GType type = G_PARAM_SPEC_VALUE_TYPE(spec);
    const char *name = g_param_spec_get_name(spec);
    if (!(argument->flags & VIPS_ARGUMENT_INPUT)) return NULL;
    int isNumber = type == G_TYPE_INT || type == G_TYPE_DOUBLE || type == G_TYPE_BOOLEAN || G_IS_PARAM_SPEC_ENUM(spec)
        || G_IS_PARAM_SPEC_FLAGS(spec) || type == VIPS_TYPE_ARRAY_DOUBLE || type == VIPS_TYPE_ARRAY_INT;
    int isImage = type == VIPS_TYPE_IMAGE && strcmp(name, "in") == 0;
    if (!isNumber && !isImage) *(const char **) found = name;
    return NULL;
}

/// The name of an argument that is a text, bytes, a file, a second image or another object; NULL if the operation has
/// none.
static inline const char *_Nullable megaton_vips_forbidden_argument(const char *_Nonnull name) {
    VipsOperation *operation = vips_operation_new(name);
    if (operation == NULL) return "?";
    const char *found = NULL;
    vips_argument_map(VIPS_OBJECT(operation), megaton_vips_find_forbidden, &found, NULL);
    g_object_unref(operation);
    return found;
}

typedef void (*megaton_vips_visitor)(const char *_Nonnull name, void *_Nullable context);

typedef struct {
    megaton_vips_visitor _Nonnull visit;
    void *_Nullable context;
} megaton_vips_walk;

static void *megaton_vips_visit(GType type, void *walk) {
    megaton_vips_walk *walker = (megaton_vips_walk *) walk;
    if (!G_TYPE_IS_ABSTRACT(type)) {
        void *class = g_type_class_ref(type);
        walker->visit(VIPS_OBJECT_CLASS(class)->nickname, walker->context);
        g_type_class_unref(class);
    }
    return NULL;
}

/// Visits the names of all operations of this libvips.
static inline void megaton_vips_each_operation(megaton_vips_visitor _Nonnull visit, void *_Nullable context) {
    megaton_vips_walk walk = {visit, context};
    vips_type_map_all(g_type_from_name("VipsOperation"), megaton_vips_visit, &walk);
}
