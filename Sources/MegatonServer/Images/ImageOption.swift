internal import MegatonCore

/// The options of image URLs that are read. Their names are those of imgproxy.
enum ImageOption: CaseIterable, Sendable {
    case resize, size, resizingType, width, height, minWidth, minHeight, zoom, dpr, enlarge, extend, extendAspectRatio
    case gravity, trim, padding, autoRotate, rotate, flip
    case background, blur, sharpen, pixelate, watermark
    case stripMetadata, keepCopyright, stripColorProfile, enforceThumbnail
    case quality, formatQuality, maxBytes, format
    case raw, cacheBuster, expires, fileName, returnAttachment
    case preset

    /// The long name and the short ones.
    var names: [String] {
        switch self {
        case .resize: ["resize", "rs"]
        case .size: ["size", "s"]
        case .resizingType: ["resizing_type", "rt"]
        case .width: ["width", "w"]
        case .height: ["height", "h"]
        case .minWidth: ["min-width", "mw"]
        case .minHeight: ["min-height", "mh"]
        case .zoom: ["zoom", "z"]
        case .dpr: ["dpr"]
        case .enlarge: ["enlarge", "el"]
        case .extend: ["extend", "ex"]
        case .extendAspectRatio: ["extend_aspect_ratio", "extend_ar", "exar"]
        case .gravity: ["gravity", "g"]
        case .trim: ["trim", "t"]
        case .padding: ["padding", "pd"]
        case .autoRotate: ["auto_rotate", "ar"]
        case .rotate: ["rotate", "rot"]
        case .flip: ["flip", "fl"]
        case .background: ["background", "bg"]
        case .blur: ["blur", "bl"]
        case .sharpen: ["sharpen", "sh"]
        case .pixelate: ["pixelate", "pix"]
        case .watermark: ["watermark", "wm"]
        case .stripMetadata: ["strip_metadata", "sm"]
        case .keepCopyright: ["keep_copyright", "kcr"]
        case .stripColorProfile: ["strip_color_profile", "scp"]
        case .enforceThumbnail: ["enforce_thumbnail", "eth"]
        case .quality: ["quality", "q"]
        case .formatQuality: ["format_quality", "fq"]
        case .maxBytes: ["max_bytes", "mb"]
        case .format: ["format", "f", "ext"]
        case .raw: ["raw"]
        case .cacheBuster: ["cachebuster", "cb"]
        case .expires: ["expires", "exp"]
        case .fileName: ["filename", "fn"]
        case .returnAttachment: ["return_attachment", "att"]
        case .preset: ["preset", "pr"]
        }
    }

    private static let named = Dictionary(
        uniqueKeysWithValues: allCases.flatMap { option in option.names.map { ($0, option) } }
    )

    /// Options of imgproxy that are always refused, by their names.
    static let unsupported: Set<String> = [
        "crop", "c", "skip_processing", "skp",
        // They would replace limits of the operator.
        "max_src_resolution", "msr", "max_src_file_size", "msfs", "max_animation_frames", "maf",
        "max_animation_frame_resolution", "mafr", "max_result_dimension", "mrd",
        // Those of imgproxy Pro.
        "adjust", "a", "autoquality", "aq", "background_alpha", "bga", "blur_detections", "bd", "brightness", "br",
        "colorize", "col", "contrast", "co", "crop_aspect_ratio", "crop_ar", "car", "disable_animation", "da", "dpi",
        "draw_detections", "dd", "duotone", "dt", "fallback_image_url", "fiu", "gradient", "gr", "hashsum", "hs",
        "jpeg_options", "jpgo", "monochrome", "mc", "objects_position", "obj_pos", "op", "page", "pg", "pages", "pgs",
        "png_options", "pngo", "resizing_algorithm", "ra", "saturation", "sa", "style", "st", "unsharp_masking", "ush",
        "video_thumbnail_animation", "vta", "video_thumbnail_keyframes", "vtk", "video_thumbnail_second", "vts",
        "video_thumbnail_tile", "vtt", "watermark_rotate", "wm_rot", "wmr", "watermark_shadow", "wmsh",
        "watermark_size", "wms", "watermark_text", "wmt", "watermark_url", "wmu", "webp_options", "webpo",
    ]

    /// The option of a segment.
    static func of(_ arguments: ImageArguments) throws(ImageURLError) -> Self {
        if let option = named[arguments.name] { return option }
        let name = FieldProblem.quoted(arguments.name)
        let value = FieldProblem.quoted(arguments.values.joined(separator: ":"))
        let allowed = allCases.map { $0.names[0] }.sorted().joined(separator: ", ")
        if unsupported.contains(arguments.name) {
            throw ImageURLError(
                .option,
                "Option \(name) with the value \(value) is not supported by Megaton; allowed are \(allowed)"
            )
        }
        if ["http", "https", "s3", "file", "data"].contains(arguments.name) {
            throw ImageURLError(.source, "The source begins with \(name); write plain/ before a source in plain text")
        }
        let near = Spelling.nearest(to: arguments.name, among: named.keys.sorted())
        throw ImageURLError(
            .option,
            "Option \(name) with the value \(value) is unknown; allowed are \(allowed)"
                + (near.map { "; did you mean \"\($0)\"?" } ?? "")
        )
    }
}
