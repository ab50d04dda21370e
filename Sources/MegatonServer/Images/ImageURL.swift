package import MegatonPipeline

/// The operator's rules for image URLs.
package struct ImageURLSettings: Sendable {
    package var signature: ImageSignature
    package var presets: ImagePresets
    /// Reads the segment after the signature as names of presets, and allows no other options.
    package var presetsOnly: Bool
    /// The allowed widths and heights after `zoom` and `dpr`; nil allows all.
    package var sizes: Set<Int>?
    /// The allowed formats of results.
    package var formats: Set<Rendition.Format>
    /// The name of the image that `watermark` draws, among the watermarks of the pipeline; nil refuses the option.
    package var watermark: String?

    package init(
        signature: ImageSignature,
        presets: ImagePresets = ImagePresets(),
        presetsOnly: Bool = false,
        sizes: Set<Int>? = nil,
        formats: Set<Rendition.Format> = [.jpeg, .png, .webp, .avif, .gif],
        watermark: String? = nil
    ) {
        self.signature = signature
        self.presets = presets
        self.presetsOnly = presetsOnly
        self.sizes = sizes
        self.formats = formats
        self.watermark = watermark
    }
}

/// An image URL in the grammar of imgproxy, `/{signature}/{options}/{source}`, verified and read.
///
/// Source: https://docs.imgproxy.net/usage/processing
package struct ImageURL: Sendable, Equatable {
    /// The URL of the source; whether it may be loaded is for the loader to decide.
    package let source: String
    package let options: ImageOptions

    /// - Parameters:
    ///   - path: The path exactly as received, from the slash before the signature.
    ///   - seconds: The time since 1970, for the option `expires`.
    package init(path: String, at seconds: Int, settings: ImageURLSettings) throws(ImageURLError) {
        let path = try ImagePath(path)
        // First: a path that is not signed is not worth more work, and its errors would help in guessing.
        try settings.signature.verify(path.signature, of: path.signed)
        let (list, source) = try path.parts(presetsOnly: settings.presetsOnly)
        var options = try ImageOptions(settings.presets.expandedWithDefault(list))
        if let format = source.format { try options.apply(format: format) }
        try options.checkExpiry(at: seconds)
        self.source = source.url
        self.options = options
    }
}
