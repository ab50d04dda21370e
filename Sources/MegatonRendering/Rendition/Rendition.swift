/// One output image of a source: its size, its fit and its encoding.
///
/// Each option that changes the output bytes is a property here and part of `identity`. The processors and the
/// thumbnail of a request are not applied to renditions.
///
/// The options are applied in this order, whatever the order in which they are given: the EXIF orientation, `trim`,
/// `rotate`, `flip`, the size with `fit`, `flatten`, `blur`, `sharpen`, `grayscale`, `padding`, `watermark`, and the
/// encoding. So the size is that of the rotated image, and `gravity` is a direction in it.
public struct Rendition: Sendable, Hashable {
    /// How the source is fitted to the requested size, in the terms of CSS `object-fit` and sharp.
    ///
    /// Nothing is enlarged unless `enlarge` is true. If the source is too small, `inside` and `outside` keep its size,
    /// `cover` crops it to the requested aspect ratio at its own size (Nuke's `Resize` with `crop`), `fill` keeps the
    /// sides that are too short, and `contain` centers it unscaled on the canvas, which always has the requested size.
    public enum Fit: String, WordChoice {
        /// The largest size within width x height that keeps the aspect ratio.
        case inside
        /// Covers width x height and keeps the aspect ratio; the surplus is cropped as `gravity` or `focus` say.
        case cover
        /// Like `inside`, then padded to width x height with the background color.
        case contain
        /// Exactly width x height, without keeping the aspect ratio.
        case fill
        /// The smallest size that covers width x height and keeps the aspect ratio, without cropping.
        case outside
        /// `cover` if the rotated source and width x height are both at least as wide as high, or both higher than
        /// wide; otherwise `inside`.
        case auto
    }

    /// Metadata of the original to keep. All other metadata is always removed.
    public enum KeptMetadata: String, WordChoice {
        case none
        /// EXIF's Copyright and Artist.
        case copyright
    }

    /// The color space of the output.
    public enum ColorProfile: String, WordChoice {
        /// sRGB without a profile, which every program shows correctly.
        case srgb
        /// The source's own profile, which is embedded in the file, for wide gamuts. Sources in CMYK or gray, and those
        /// without a profile, are still converted to sRGB.
        case keep
    }

    /// Part of output names: letters, digits, `.`, `_` and `-`.
    public var name: String
    /// Pixels; nil derives it from the height and the aspect ratio.
    public var width: Int?
    /// Pixels; nil derives it from the width and the aspect ratio.
    public var height: Int?
    /// How the image fits into width and height.
    public var fit: Fit
    /// Format of the output.
    public var format: Format
    /// 1 to 100; PNG and GIF ignore it.
    public var quality: Int
    /// Color behind transparent pixels, of the bars of `contain` and of `padding`. An image that stays transparent, as
    /// it does without `flatten` in formats that allow it, has transparent bars and padding.
    public var background: Color
    /// The part that `cover` keeps when it crops.
    public var gravity: Gravity
    /// The point of the upright source that `cover` centers as far as the edges permit; it replaces `gravity`.
    public var focus: FocalPoint?
    /// Device pixel ratio, 1 to 4: width and height are multiplied by it, or by less if the output would exceed the
    /// limits.
    public var dpr: Double
    /// Whether a source that is too small is enlarged.
    public var enlarge: Bool
    /// Writes a JPEG with several scans, or an interlaced PNG.
    public var progressive: Bool
    /// Effort of the encoder, in its own numbers from fast to small: 0 to 9 for PNG and AVIF, 0 to 6 for WebP, 1 to 10
    /// for GIF, and 3 to 9 for JPEG XL. Nil is its default; JPEG has none.
    public var effort: Int?
    /// Writes WebP or JPEG XL without loss; PNG is always lossless.
    public var lossless: Bool
    /// Whether GIF and WebP keep the frames of an animation; otherwise only the first one is used.
    public var animated: Bool
    /// Metadata of the source that is kept.
    public var keepMetadata: KeptMetadata
    /// Color profile of the output.
    public var profile: ColorProfile
    /// How much of the downscaling the decoder does.
    public var qualityProfile: QualityProfile
    /// Scales in linear light: the mean of samples is that of their intensities, as if the eye had averaged them. Small
    /// bright details on dark ground keep their brightness; sRGB samples, which are scaled as they are by default, make
    /// them darker. libvips does it, in several times the time.
    public var linear = false
    /// The damage of the source that counts as an error; nil uses the value of the job, then of the worker, then
    /// `truncated`.
    public var failOn: FailOn?
    /// Chroma subsampling of JPEG and AVIF; nil is `s444` from quality 90 on, and `s420` below.
    public var chroma: Chroma?
    /// Removes borders of the color of the top left pixel; pixels belong to them if no channel differs by more than
    /// this number, 0 to 255. Animations keep the part that any of their frames needs. Nil removes nothing.
    public var trim: Int?
    /// Clockwise rotation, after the EXIF orientation and before the size is applied.
    public var rotate: Rotation?
    /// Reflection, after the rotation.
    public var flip: Flip?
    /// Fills transparent pixels with the `background` in formats with transparency too.
    public var flatten = false
    /// Standard deviation of a Gaussian blur in pixels of the result, 0.3 to 100.
    public var blur: Double?
    /// Sharpens lightness: standard deviation of the Gaussian that detects edges in pixels of the result, 0.1 to 10.
    /// 0.5 is mild.
    public var sharpen: Double?
    /// Removes colors.
    public var grayscale = false
    /// Pixels of the `background` around the result, outside of its size and not multiplied by `dpr`.
    public var padding: Padding?
    /// Text or image on top of the result and its padding.
    public var watermark: Watermark?
    /// Maximum size of the encoded image in bytes: the quality is lowered from `quality`, at most to 20, until the
    /// image fits. At most five encodings find the quality.
    public var maxBytes: Int?
    /// The SSIMULACRA2 score that the encoded image should have beside its pixels, 10 to 100: 90 is a difference that
    /// is hardly visible, 70 high quality, 50 medium. The lowest quality that has it is found for each image, from 20
    /// to 95, by at most eight encodings; if none has it, or within `maxBytes`, the best one is taken. libvips does it,
    /// in many times the time.
    public var targetScore: Double?

    /// The resolution of color in the encoded image. Brightness always has the full resolution.
    public enum Chroma: String, WordChoice {
        /// One color sample for four pixels.
        case s420 = "420"
        /// One color sample for each pixel: sharper edges of saturated colors, and more bytes.
        case s444 = "444"

        public static let aliases: [String: Chroma] = ["4:2:0": .s420, "4:4:4": .s444]
    }

    /// Options without a parameter here are set on the value: another parameter would change the initializer's name.
    ///
    /// - Parameter name: `<width>x<height>` if nil.
    public init(
        name: String? = nil,
        width: Int? = nil,
        height: Int? = nil,
        fit: Fit = .inside,
        format: Format = .jpeg,
        quality: Int = 80,
        background: Color = .white,
        gravity: Gravity = .center,
        focus: FocalPoint? = nil,
        dpr: Double = 1,
        enlarge: Bool = false,
        progressive: Bool = false,
        effort: Int? = nil,
        lossless: Bool = false,
        animated: Bool = false,
        keepMetadata: KeptMetadata = .none,
        profile: ColorProfile = .srgb,
        qualityProfile: QualityProfile = .balanced,
        failOn: FailOn? = nil
    ) {
        self.name = name ?? Self.defaultName(width: width, height: height)
        self.width = width
        self.height = height
        self.fit = fit
        self.format = format
        self.quality = quality
        self.background = background
        self.gravity = gravity
        self.focus = focus
        self.dpr = dpr
        self.enlarge = enlarge
        self.progressive = progressive
        self.effort = effort
        self.lossless = lossless
        self.animated = animated
        self.keepMetadata = keepMetadata
        self.profile = profile
        self.qualityProfile = qualityProfile
        self.failOn = failOn
    }

    /// The largest side that may be requested, in pixels.
    public static let maximumSide = 8192

    /// The name if none is given: `640x480`, `640x` or `x480`.
    package static func defaultName(width: Int?, height: Int?) -> String {
        "\(width.map(String.init) ?? "")x\(height.map(String.init) ?? "")"
    }

    /// All options except the name, in a fixed order: two renditions with the same identity look the same. Their bytes
    /// may differ slightly if one was made from the pixels of a larger rendition.
    ///
    /// Options at their defaults are omitted, so that renditions made before these options existed keep their keys.
    package var identity: [String] {
        let fields = [
            width.map(String.init) ?? "", height.map(String.init) ?? "", fit.rawValue, format.rawValue,
            format.hasQuality ? String(quality) : "", background.description,
        ]
        return fields + RenditionOption.identifying.compactMap { $0.identity?(self) }
    }

    /// Options of the encoder that differ from their defaults, by name. Format and quality are separate in keys.
    package var encodingIdentity: [String] { RenditionOption.encoding.compactMap { $0.identity?(self) } }

    /// The effective level of `failOn`.
    var toleratedDamage: FailOn { failOn ?? .truncated }

    /// The JSON schema of a rendition.
    static var jsonSchema: JSONSchema {
        let properties = RenditionOption.all.map { ($0.name, $0.schema) }
        var schema = JSONSchema(.object, properties: Dictionary(uniqueKeysWithValues: properties))
        schema.draft = "https://json-schema.org/draft/2020-12/schema"
        schema.description = "A rendition: its size, its fit and its encoding."
        schema.anyOf = ["width", "height"].map { JSONSchema(required: [$0]) }
        return schema
    }
}
