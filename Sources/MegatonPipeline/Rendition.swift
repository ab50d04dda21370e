/// One picture to be made from a source: its size, how it fits, and how it is encoded.
///
/// Whatever changes a byte of the result is a property here and part of `identity`: the processors and the thumbnail of a
/// request are not applied to it.
public struct Rendition: Sendable, Hashable {
    /// How the source's rectangle meets the wanted one; the words of CSS `object-fit` and sharp.
    ///
    /// Nothing is enlarged unless `enlarge` says so. Of a source that is too small `inside` and `outside` leave the
    /// size as it is, `cover` cuts the wanted aspect out of it at its own size (Nuke's `Resize` with `crop`), `fill`
    /// leaves the sides that are too short, and `contain` puts it as it is into the middle of the canvas, which always
    /// has the wanted size.
    public enum Fit: String, WordChoice {
        /// As large as fits within width x height, keeping the aspect.
        case inside
        /// Covers width x height, keeping the aspect; what sticks out is cut off, `gravity` or `focus` say where.
        case cover
        /// As `inside`, then filled up to width x height with the background.
        case contain
        /// Exactly width x height, the aspect given up.
        case fill
        /// As small as covers width x height, keeping the aspect; nothing is cut off.
        case outside
    }

    /// Which of the original's metadata stay. All others go, whatever is said here.
    public enum KeptMetadata: String, WordChoice {
        case none
        /// EXIF's Copyright and Artist.
        case copyright
    }

    /// In which colours a picture is written.
    public enum ColorProfile: String, WordChoice {
        /// sRGB, without a profile: what every program shows right.
        case srgb
        /// Those of the source's own profile, which goes into the file: for wide gamuts. Sources in CMYK or grey, and
        /// those without a profile, become sRGB all the same.
        case keep
    }

    /// Stands in output names: letters, digits, `.`, `_` and `-`.
    public var name: String
    /// Pixels; nil leaves that side to the other one and the aspect.
    public var width: Int?
    /// Pixels; nil leaves that side to the other one and the aspect.
    public var height: Int?
    public var fit: Fit
    public var format: Format
    /// 1 to 100; PNG and GIF ignore it.
    public var quality: Int
    /// Behind transparent pixels and in the bars of `contain`.
    public var background: Color
    /// What stays where `cover` cuts.
    public var gravity: Gravity
    /// What stays in the middle where `cover` cuts, as far as the edges let it; in the place of `gravity`.
    public var focus: FocalPoint?
    /// Pixels of the screen for one of the page, 1 to 4: width and height are multiplied by it, less where the result
    /// would be over the limits for outputs.
    public var dpr: Double
    /// Whether a source that is too small is enlarged.
    public var enlarge: Bool
    /// JPEG with several scans, or interlaced PNG.
    public var progressive: Bool
    /// How hard the encoder tries, in its own numbers (`Format.efforts`); nil is its default.
    public var effort: Int?
    /// WebP and JPEG XL without loss; PNG has none anyway.
    public var lossless: Bool
    /// Whether the frames of an animation stay: GIF and WebP. The first one alone is taken else.
    public var animated: Bool
    public var keepMetadata: KeptMetadata
    public var profile: ColorProfile
    /// How much of the shrinking is left to the decoder.
    public var qualityProfile: QualityProfile
    /// Which damage of the source is an error; nil is what the job says, then the worker, then `truncated`.
    public var failOn: FailOn?

    /// - Parameter name: `<width>x<height>` if nil.
    public init(
        name: String? = nil,
        width: Int? = nil,
        height: Int? = nil,
        fit: Fit = .inside,
        format: Format = .jpeg,
        quality: Int = 80,
        background: Color = .white,
        gravity: Gravity = .centre,
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
        self.name = name ?? "\(width.map(String.init) ?? "")x\(height.map(String.init) ?? "")"
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

    /// The largest side that may be asked for, pixels.
    public static let maximumSide = 8192

    /// Everything but the name, in a fixed order: two renditions with the same identity look the same.
    /// Their bytes may differ a little where one was made beside a larger one, of that one's pixels.
    ///
    /// Options at their defaults are left out, so that what was made before there were these options keeps its key.
    public var identity: [String] {
        var fields = [
            width.map(String.init) ?? "", height.map(String.init) ?? "", fit.rawValue, format.rawValue,
            format.hasQuality ? String(quality) : "", background.description,
        ]
        if gravity != .centre { fields.append("gravity=\(gravity.rawValue)") }
        if let focus { fields.append("focus=\(focus.x),\(focus.y)") }
        if dpr != 1 { fields.append("dpr=\(dpr)") }
        if enlarge { fields.append("enlarge") }
        if qualityProfile != .balanced { fields.append("qualityProfile=\(qualityProfile.rawValue)") }
        if toleratedDamage != .truncated { fields.append("failOn=\(toleratedDamage.rawValue)") }
        return fields + encoding.identity
    }

    /// The level that holds for it.
    var toleratedDamage: FailOn { failOn ?? .truncated }

    /// How the pixels become bytes.
    var encoding: EncodingOptions {
        EncodingOptions(
            format: format,
            quality: quality,
            progressive: progressive,
            effort: effort,
            lossless: lossless,
            animated: animated,
            keepMetadata: keepMetadata,
            profile: profile
        )
    }
}
