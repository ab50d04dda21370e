package import MegatonPipeline

/// The options of an image URL, after presets, in the order of the URL: a later option replaces an earlier one.
///
/// They are kept in imgproxy's terms, because its options depend on each other: the size, for example, means another
/// fit after each resizing type. `rendition` translates them once all are known.
package struct ImageOptions: Sendable, Equatable {
    enum Resizing: Sendable, Equatable {
        case fit, fill, fillDown, force, auto
    }

    enum Anchor: Sendable, Equatable {
        case toward(Rendition.Gravity)
        case point(x: Double, y: Double)
    }

    struct Mark: Sendable, Equatable {
        /// 0 for no watermark.
        var opacity = 0.0
        var position = Rendition.Watermark.Position.center
        /// Before they are multiplied by `dpr`; below 1 fractions of the side.
        var x = 0.0
        var y = 0.0
        /// Nil for the natural size.
        var scale: Double?
    }

    var resizing = Resizing.fit
    /// 0 if it follows from the height.
    var width = 0
    /// 0 if it follows from the width.
    var height = 0
    var zoom = 1.0
    var dpr = 1.0
    var enlarge = false
    var extend = false
    var anchor = Anchor.toward(.center)
    var trim: Int?
    /// Before it is multiplied by `dpr`.
    var padding: Rendition.Padding?
    /// Clockwise, 0 to 3.
    var quarterTurns = 0
    var flipsHorizontally = false
    var flipsVertically = false
    var background: Color?
    var blur: Double?
    var sharpen: Double?
    var mark = Mark()
    var keepsCopyright = false
    var keepsProfile = false
    var quality: Int?
    /// Qualities for formats, if there is no `quality`.
    var qualities: [Rendition.Format: Int] = [:]
    var maxBytes: Int?

    /// The requested format; nil leaves it to the server.
    package internal(set) var format: Rendition.Format?
    /// The name for `Content-Disposition`: at most 255 bytes, without slashes and control characters.
    package internal(set) var fileName: String?
    /// Whether `Content-Disposition` is `attachment`.
    package internal(set) var isAttachment = false
    /// The earliest end of the URL, in seconds since 1970.
    package internal(set) var expiry: Int?

    init() {}

    /// - Parameter list: Options without presets.
    init(_ list: [ImageArguments]) throws(ImageURLError) {
        for arguments in list { try apply(arguments) }
    }

    func checkExpiry(at seconds: Int) throws(ImageURLError) {
        if let expiry, expiry < seconds {
            throw ImageURLError(.expired, "The URL expired at \(expiry) seconds since 1970; request a new one")
        }
    }
}
