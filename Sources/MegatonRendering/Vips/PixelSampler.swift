internal import CVips
internal import Foundation

/// Samples an image while libvips computes it for a rendition, so that facts about it need no second evaluation.
///
/// Belongs to one render. It must outlive the evaluation of the images that it returns, whose threads write samples.
final class PixelSampler {
    /// Samples along the longer side, at most.
    private static let side = 3 * SmallImage.longestSide

    private var grid: UnsafeMutablePointer<megaton_vips_samples>?
    private var bands = 0
    /// Size of the image that the samples show, before it was scaled.
    private var source = PixelSize(width: 1, height: 1)

    init() {}

    deinit {
        guard let grid else { return }
        grid.pointee.samples.deallocate()
        grid.deallocate()
    }

    /// Whether an image is sampled already.
    var isUsed: Bool { grid != nil }

    /// The same image, the first frame of which is sampled when it is computed. Only the first image is sampled, and no
    /// image whose samples are neither 8 nor 16 bits of gray or RGB: it is returned unchanged. All of the image must be
    /// computed afterwards.
    ///
    /// - Parameter source: Size of the image before it was scaled: a rendition may have another aspect.
    func sampling(_ image: VipsImage, of source: PixelSize) throws(VipsError) -> VipsImage {
        guard grid == nil, image.canBeSampled else { return image }
        let size = image.size
        let (across, down) = (min(size.width, Self.side), min(size.height, Self.side))
        let count = across * down * image.bands
        let samples = UnsafeMutablePointer<UInt8>.allocate(capacity: count)
        samples.initialize(repeating: 0, count: count)
        let made = UnsafeMutablePointer<megaton_vips_samples>.allocate(capacity: 1)
        made.initialize(
            to: megaton_vips_samples(
                samples: samples,
                across: Int32(across),
                down: Int32(down),
                width: Int32(size.width),
                height: Int32(size.height)
            )
        )
        grid = made
        (bands, self.source) = (image.bands, source)
        return try VipsImage.make { megaton_vips_sample(image.pointer, made, $0) }
    }

    /// The sampled image; nil if none was.
    var image: SmallImage? {
        guard let grid = grid?.pointee else { return nil }
        let sampled = PixelSize(width: Int(grid.across), height: Int(grid.down))
        return SmallImage(grid.samples, sampled, bands: bands, to: SmallImage.size(of: source))
    }
}

extension VipsImage {
    fileprivate var canBeSampled: Bool {
        let colors = [
            VIPS_INTERPRETATION_sRGB, VIPS_INTERPRETATION_B_W, VIPS_INTERPRETATION_RGB16, VIPS_INTERPRETATION_GREY16,
            VIPS_INTERPRETATION_RGB,
        ]
        let formats = [VIPS_FORMAT_UCHAR, VIPS_FORMAT_USHORT]
        return (1...4).contains(bands) && (bands == 2 || bands == 4) == hasAlpha
            && colors.contains(vips_image_get_interpretation(pointer))
            && formats.contains(vips_image_get_format(pointer))
    }
}
