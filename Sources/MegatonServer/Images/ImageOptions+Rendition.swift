internal import MegatonCore
package import MegatonPipeline

extension ImageOptions {
    /// The rendition that the options describe.
    ///
    /// Options that have no effect in imgproxy beside others, such as `gravity` without cropping, have none here.
    ///
    /// - Parameter defaultFormat: The format if the URL names none.
    package func rendition(
        defaultFormat: Rendition.Format,
        settings: ImageURLSettings
    ) throws(ImageURLError) -> Rendition {
        let format = self.format ?? defaultFormat
        guard settings.formats.contains(format) else {
            let allowed = Rendition.Format.allCases.filter(settings.formats.contains).map(\.rawValue)
            throw .value(format.rawValue, of: "value", in: "format", allowed: "are \(allowed.joined(separator: ", "))")
        }
        var rendition = try sized(settings)
        rendition.format = format
        if let quality = self.quality ?? qualities[format] { rendition.quality = quality }
        if let background {
            rendition.background = background
            // JPEGs are filled in any case: the option would be a second key for the same bytes.
            rendition.flatten = format.hasAlpha
        }
        rendition.trim = trim
        rendition.rotate = Self.rotations[quarterTurns]
        rendition.flip = flip
        rendition.blur = blur
        rendition.sharpen = sharpen
        rendition.watermark = try watermark(settings)
        rendition.maxBytes = maxBytes
        if keepsCopyright { rendition.keepMetadata = .copyright }
        if keepsProfile { rendition.profile = .keep }
        if let problem = rendition.problem {
            throw ImageURLError(.option, "The options do not fit together: \(problem)")
        }
        return rendition
    }

    /// By quarter turns.
    private static let rotations: [Rendition.Rotation?] = [nil, .quarter, .half, .threeQuarters]

    private var flip: Rendition.Flip? {
        switch (flipsHorizontally, flipsVertically) {
        case (false, false): nil
        case (true, false): .horizontal
        case (false, true): .vertical
        case (true, true): .both
        }
    }

    // MARK: - Size

    /// Whether the sizes are allowed, if there are any.
    func checkSizes(_ settings: ImageURLSettings) throws(ImageURLError) {
        if width != 0 || height != 0 { _ = try sized(settings) }
    }

    /// Size, fit, pixel ratio, padding and the part that is kept.
    private func sized(_ settings: ImageURLSettings) throws(ImageURLError) -> Rendition {
        if width == 0 && height == 0 { return try unsized(settings) }
        let width = try zoomed(self.width, "width")
        let height = try zoomed(self.height, "height")
        if let sizes = settings.sizes {
            for (name, side) in [("width", width), ("height", height)] { try check(side, name, sizes) }
        }
        var rendition = Rendition(width: width, height: height, fit: try fit, dpr: dpr, enlarge: enlarge)
        if rendition.fit == .cover || rendition.fit == .auto { aim(&rendition) }
        // Megaton does not multiply padding by `dpr`, imgproxy does.
        rendition.padding = padding.map { padding -> Rendition.Padding in
            func scaled(_ pixels: Int) -> Int { Int((Double(pixels) * dpr).rounded()) }
            return Rendition.Padding(
                top: scaled(padding.top),
                right: scaled(padding.right),
                bottom: scaled(padding.bottom),
                left: scaled(padding.left)
            )
        }
        return rendition
    }

    /// The size of the source, as far as renditions may be so large. Without a size to reach, `dpr` and `enlarge` have
    /// no effect.
    private func unsized(_ settings: ImageURLSettings) throws(ImageURLError) -> Rendition {
        if settings.sizes != nil {
            throw ImageURLError(.option, "The URL has neither a width nor a height; this server allows only some sizes")
        }
        let needs = "needs a width or a height beside it"
        if zoom != 1 { throw ImageURLError(.option, "Option \"zoom\" \(needs)") }
        if enlarge && dpr != 1 { throw ImageURLError(.option, "Option \"dpr\" with enlarge \(needs)") }
        if extend { throw ImageURLError(.option, "Option \"extend\" needs a width and a height beside it") }
        let most = Rendition.maximumSide
        let (left, right) = (padding?.left ?? 0, padding?.right ?? 0)
        let (top, bottom) = (padding?.top ?? 0, padding?.bottom ?? 0)
        var rendition = Rendition(
            name: "original",
            width: max(1, most - left - right),
            height: max(1, most - top - bottom)
        )
        rendition.padding = padding
        return rendition
    }

    private func zoomed(_ side: Int, _ name: String) throws(ImageURLError) -> Int? {
        if side == 0 { return nil }
        guard let whole = Self.wholePixels(side, times: zoom), (1...Rendition.maximumSide).contains(whole) else {
            throw .value(
                ImageArguments.text(zoom),
                of: "factor",
                in: "zoom",
                allowed: "are those that make the \(name) of \(side) whole pixels from 1 to \(Rendition.maximumSide)"
            )
        }
        return whole
    }

    /// Sizes are compared after `zoom` and `dpr`, which would otherwise give each allowed size a hundred others.
    private func check(_ side: Int?, _ name: String, _ sizes: Set<Int>) throws(ImageURLError) {
        guard let side else { return }
        if let whole = Self.wholePixels(side, times: dpr), sizes.contains(whole) { return }
        let shown = sizes.sorted().prefix(Self.shownSizes).map(String.init).joined(separator: ", ")
        let more = sizes.count > Self.shownSizes ? ", …" : ""
        throw ImageURLError(
            .option,
            "The \(name) is \(Self.text(side, times: dpr)) pixels; this server allows \(shown)\(more)"
        )
    }

    /// The pixels of a side after a factor; nil if they are not whole.
    ///
    /// The nearest floating-point number of a factor such as 1.1 is another one, so that 100 times 1.1 is
    /// 110.00000000000001. The two roundings amount to two units in the last place at most; a wider tolerance would
    /// give an allowed size many spellings, each with a cache entry of its own.
    private static func wholePixels(_ side: Int, times factor: Double) -> Int? {
        let pixels = Double(side) * factor
        let whole = pixels.rounded()
        return abs(pixels - whole) <= 2 * whole.ulp ? Int(whole) : nil
    }

    private static func text(_ side: Int, times factor: Double) -> String {
        wholePixels(side, times: factor).map(String.init) ?? "\(Double(side) * factor)"
    }

    /// Allowed sizes in a message.
    private static let shownSizes = 32

    private var fit: Rendition.Fit {
        get throws(ImageURLError) {
            let hasBoth = width != 0 && height != 0
            if extend {
                if resizing != .fit {
                    throw ImageURLError(.option, "Option \"extend\" is for the resizing type fit")
                }
                if !hasBoth { throw ImageURLError(.option, "Option \"extend\" needs a width and a height beside it") }
                return .contain
            }
            switch resizing {
            case .fit: return .inside
            // With one side, there is nothing to crop.
            case .fill, .fillDown: return hasBoth ? .cover : .inside
            case .auto: return hasBoth ? .auto : .inside
            case .force:
                if hasBoth { return .fill }
                throw ImageURLError(.option, "The resizing type force needs a width and a height")
            }
        }
    }

    private func aim(_ rendition: inout Rendition) {
        switch anchor {
        case .toward(let gravity): rendition.gravity = gravity
        case .point(var x, var y):
            // imgproxy's point is one of the rotated and flipped image, Megaton's one of the upright source.
            if flipsHorizontally { x = 1 - x }
            if flipsVertically { y = 1 - y }
            for _ in 0..<quarterTurns { (x, y) = (y, 1 - x) }
            rendition.focus = Rendition.FocalPoint(x: x, y: y)
        }
    }

    // MARK: - Watermark

    private func watermark(_ settings: ImageURLSettings) throws(ImageURLError) -> Rendition.Watermark? {
        if mark.opacity == 0 { return nil }
        guard let image = settings.watermark else {
            throw ImageURLError(.option, "Option \"watermark\" needs an image, and this server has none for it")
        }
        var watermark = Rendition.Watermark(
            .image(image),
            position: mark.position,
            opacity: mark.opacity,
            scale: mark.scale
        )
        (watermark.x, watermark.y) = (enlarged(mark.x), enlarged(mark.y))
        return watermark
    }

    /// An offset after `dpr`, which does not change fractions of a side.
    private func enlarged(_ offset: Double) -> Double {
        abs(offset) < 1 ? offset : (offset * dpr).rounded(.toNearestOrEven)
    }
}
