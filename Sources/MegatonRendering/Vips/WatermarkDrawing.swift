internal import CVips
internal import Foundation

/// A watermark at its size and place on results of one size, in memory.
struct WatermarkDrawing {
    /// With transparency.
    private let mark: VipsImage
    /// Of the mark's top left corner; may be outside of the result.
    private let left: Int
    private let top: Int
    /// Whether the mark has no colors. Otherwise gray images become colored.
    private let isGray: Bool

    /// - Parameters:
    ///   - size: That of the result.
    ///   - isGray: Whether the result is gray.
    init(_ watermark: Rendition.Watermark, on size: PixelSize, isGray: Bool, stop: VipsImage.Stop) throws(VipsError) {
        let drawn: Mark
        switch watermark.content {
        case .text(let text): drawn = try .text(text, watermark, on: size)
        case .image(let name):
            guard let overlay = watermark.overlay else {
                throw VipsError(
                    ImageError(
                        .renderFailed,
                        "the watermark \(name) is not loaded. Render with a pipeline whose "
                            + "Configuration.watermarks has it.",
                        stage: .process
                    )
                )
            }
            drawn = try .image(overlay, watermark, on: size)
        }
        self.isGray = isGray && drawn.image.bands <= 2
        var mark = try drawn.image.faded(watermark.opacity).withStandardColors()
        if !self.isGray { mark = try mark.inColor() }
        let margin = watermark.margin
        let x = Self.pixels(watermark.x, of: size.width)
        let y = Self.pixels(watermark.y, of: size.height)
        if let halves = watermark.position.halves {
            let across = Self.start(drawn.size.width, on: size.width, margin, halves.horizontal, shift: x)
            let down = Self.start(drawn.size.height, on: size.height, margin, halves.vertical, shift: y)
            (left, top) = (across - drawn.halo, down - drawn.halo)
        } else {
            (left, top) = (0, 0)
            let tile = PixelSize(width: mark.width + margin + x, height: mark.height + margin + y)
            mark = try mark.placed(x / 2, y / 2, on: tile, [Double](repeating: 0, count: mark.bands)).tiled(size)
        }
        self.mark = try mark.inMemory(stop: stop)
    }

    /// A shift in pixels: below 1 it is a fraction of the side.
    private static func pixels(_ shift: Double, of side: Int) -> Int {
        Int((abs(shift) < 1 ? shift * Double(side) : shift).rounded(.toNearestOrEven))
    }

    /// The first pixel of a mark along one side of the result.
    ///
    /// - Parameter halves: offset within the free space, see `Gravity.halves`.
    private static func start(_ mark: Int, on side: Int, _ margin: Int, _ halves: Int, shift: Int) -> Int {
        let place = margin + (side - mark - 2 * margin) * halves / 2
        if shift == 0 { return place }
        // From the right and lower edges inwards. As in imgproxy, a pixel of the mark remains.
        return min(max(1 - mark, place + (halves == 2 ? -shift : shift)), side - 1)
    }

    /// The frame with the watermark. An opaque frame stays without alpha.
    func draw(on frame: VipsImage) throws(VipsError) -> VipsImage {
        let base = try (isGray ? frame : frame.inColor()).withAlpha()
        let result = try base.covered(by: mark, at: left, top).withStandardColors()
        return frame.hasAlpha ? result : try result.opaque()
    }
}

/// A text or an image at its size.
private struct Mark {
    /// With transparency.
    let image: VipsImage
    /// Size without the halo.
    let size: PixelSize
    /// Width of the halo around the text.
    var halo = 0

    /// Resolution at which the font has its natural size in pixels.
    private static let naturalResolution = 72.0
    /// Resolution for letters of 2,400 pixels; larger ones are made from these, as fonts have a largest size.
    private static let largestResolution = 7200.0

    /// White letters with a dark halo, which is legible on dark and light images.
    static func text(_ text: String, _ watermark: Rendition.Watermark, on size: PixelSize) throws(VipsError) -> Mark {
        let markup = escaped(text)
        let natural = try letters(markup, naturalResolution)
        let wanted = fitted(natural.size, watermark, size)
        let factor = Double(wanted.width) / Double(natural.width)
        // Small letters are made from those of the natural size, as fonts have a smallest size.
        let resolution = min(max(naturalResolution, (naturalResolution * factor).rounded(.up)), largestResolution)
        let drawn = try resolution == naturalResolution ? natural : letters(markup, resolution)
        let letters = try drawn.size == wanted ? drawn : drawn.thumbnail(wanted)
        let halo = max(1, wanted.height / 12)
        let canvas = PixelSize(width: wanted.width + 2 * halo, height: wanted.height + 2 * halo)
        let mask = try letters.placed(halo, halo, on: canvas, [0])
        let shadow = try mask.solid([0]).joined(mask.blurred(Double(halo) / 2)).withStandardColors()
        let white = try mask.solid([255]).joined(mask).withStandardColors()
        return Mark(image: try shadow.covered(by: white, at: 0, 0), size: wanted, halo: halo)
    }

    static func image(
        _ overlay: WatermarkPixels,
        _ watermark: Rendition.Watermark,
        on size: PixelSize
    ) throws(VipsError) -> Mark {
        let wanted = fitted(overlay.size, watermark, size)
        let image = try overlay.image()
        let scaled = try wanted == overlay.size ? image : image.thumbnail(wanted).withStandardColors()
        return Mark(image: try scaled.withAlpha(), size: wanted)
    }

    /// A mask of the letters.
    private static func letters(_ markup: String, _ resolution: Double) throws(VipsError) -> VipsImage {
        do throws(VipsError) {
            return try VipsImage.make { megaton_vips_text(markup, Int32(resolution), $0) }.withStandardColors()
        } catch {
            throw VipsError(
                ImageError(
                    .renderFailed,
                    "the text of the watermark cannot be drawn: \(error.text). Install a font, or use other characters.",
                    stage: .process
                )
            )
        }
    }

    /// The text without markup (Pango reads some characters as such).
    private static func escaped(_ text: String) -> String {
        // By scalars: a character with a combining mark would not be equal to the character alone.
        text.unicodeScalars.reduce(into: "") { result, scalar in
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            default: result.unicodeScalars.append(scalar)
            }
        }
    }

    /// The size of a watermark, within the result and its margin.
    private static func fitted(_ natural: PixelSize, _ watermark: Rendition.Watermark, _ size: PixelSize) -> PixelSize {
        let (width, height) = (Double(natural.width), Double(natural.height))
        let wanted = watermark.scale.map { $0 * Double(size.width) / width } ?? 1
        // The margin of repeated watermarks is between them.
        let margin = watermark.position == .repeat ? 0 : 2 * watermark.margin
        let most = min(Double(max(1, size.width - margin)) / width, Double(max(1, size.height - margin)) / height)
        let factor = min(wanted, most)
        return PixelSize(
            width: max(1, Int((width * factor).rounded())),
            height: max(1, Int((height * factor).rounded()))
        )
    }
}

extension WatermarkPixels {
    fileprivate func image() throws(VipsError) -> VipsImage {
        let result: Result<VipsImage, VipsError> = pixels.withUnsafeBytes { bytes in
            do throws(VipsError) {
                return .success(try VipsImage.fromMemory(bytes, size, bands: bands))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}
