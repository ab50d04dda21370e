public import Foundation

// `request.processors = [.resize(width: 320), .circle()]`

extension ImageProcessing where Self == ImageProcessors.Resize {
    /// Scales to a size, and crops the excess if `crop` is set.
    public static func resize(
        size: CGSize,
        unit: ImageProcessingOptions.Unit = .pixels,
        contentMode: ImageProcessors.ContentMode = .aspectFill,
        crop: Bool = false,
        upscale: Bool = false
    ) -> Self {
        Self(size: size, unit: unit, contentMode: contentMode, crop: crop, upscale: upscale)
    }

    /// Scales to a width.
    public static func resize(
        width: Double,
        unit: ImageProcessingOptions.Unit = .pixels,
        upscale: Bool = false
    ) -> Self {
        Self(width: width, unit: unit, upscale: upscale)
    }

    /// Scales to a height.
    public static func resize(
        height: Double,
        unit: ImageProcessingOptions.Unit = .pixels,
        upscale: Bool = false
    ) -> Self {
        Self(height: height, unit: unit, upscale: upscale)
    }
}

extension ImageProcessing where Self == ImageProcessors.Circle {
    /// Crops to the largest circle.
    public static func circle(border: ImageProcessingOptions.Border? = nil) -> Self { Self(border: border) }
}

extension ImageProcessing where Self == ImageProcessors.RoundedCorners {
    /// Rounds the corners.
    public static func roundedCorners(
        radius: Double,
        unit: ImageProcessingOptions.Unit = .pixels,
        border: ImageProcessingOptions.Border? = nil
    ) -> Self {
        Self(radius: radius, unit: unit, border: border)
    }
}

extension ImageProcessing where Self == ImageProcessors.GaussianBlur {
    /// Applies a Gaussian blur.
    public static func gaussianBlur(radius: Int = 8) -> Self { Self(radius: radius) }
}

extension ImageProcessing where Self == ImageProcessors.Anonymous {
    /// Runs a closure. The id identifies the closure in cache keys.
    public static func process(
        id: String,
        _ closure: @escaping @Sendable (PlatformImage) -> PlatformImage?
    ) -> Self {
        Self(id: id, closure)
    }
}

extension ImageProcessing where Self == ImageProcessors.Crop {
    /// Crops a region by gravity: at an edge or corner, or by content.
    public static func crop(size: PixelSize, gravity: Rendition.Gravity = .center) -> Self {
        Self(size: size, gravity: gravity)
    }

    /// Crops a region around a point.
    public static func crop(size: PixelSize, focus: Rendition.FocalPoint) -> Self { Self(size: size, focus: focus) }
}

extension ImageProcessing where Self == ImageProcessors.Pad {
    /// Places the image on a larger canvas.
    public static func pad(
        size: PixelSize,
        gravity: Rendition.Gravity = .center,
        background: Color? = nil
    ) -> Self {
        Self(size: size, gravity: gravity, background: background)
    }

    /// Adds pixels on each side.
    public static func pad(_ padding: Rendition.Padding, background: Color? = nil) -> Self {
        Self(padding, background: background)
    }
}

extension ImageProcessing where Self == ImageProcessors.Rotate {
    /// Rotates clockwise.
    public static func rotate(degrees: Double, background: Color? = nil) -> Self {
        Self(degrees: degrees, background: background)
    }
}

extension ImageProcessing where Self == ImageProcessors.Flip {
    /// Mirrors the image.
    public static func flip(_ direction: ImageProcessors.Flip.Direction) -> Self { Self(direction) }
}

extension ImageProcessing where Self == ImageProcessors.Sharpen {
    /// Sharpens.
    public static func sharpen(sigma: Double = 0.5, flat: Double = 0, jagged: Double = 3) -> Self {
        Self(sigma: sigma, flat: flat, jagged: jagged)
    }
}

extension ImageProcessing where Self == ImageProcessors.Trim {
    /// Removes borders of the color of the top left pixel.
    public static func trim(tolerance: Int = 10) -> Self { Self(tolerance: tolerance) }
}

extension ImageProcessing where Self == ImageProcessors.Grayscale {
    /// Removes colors.
    public static func grayscale() -> Self { Self() }
}

extension ImageProcessing where Self == ImageProcessors.Flatten {
    /// Blends transparency into a background color.
    public static func flatten(background: Color = .white) -> Self { Self(background: background) }
}

extension ImageProcessing where Self == ImageProcessors.Watermark {
    /// Draws an overlay on the image.
    public static func watermark(
        _ overlay: PlatformImage,
        id: String? = nil,
        gravity: Rendition.Gravity = .southEast,
        opacity: Double = 1,
        tile: Bool = false
    ) -> Self {
        Self(overlay: overlay, id: id, gravity: gravity, opacity: opacity, tile: tile)
    }
}

extension ImageProcessing where Self == ImageProcessors.PlacedWatermark {
    /// Draws a text or an image with the options of the watermarks of renditions.
    public static func watermark(_ watermark: Rendition.Watermark, overlay: PlatformImage? = nil) -> Self {
        Self(watermark, overlay: overlay)
    }
}

extension ImageProcessing where Self == ImageProcessors.VipsOperation {
    /// Runs an operation of libvips by name.
    public static func vips(
        name: String,
        arguments: [String: ImageProcessors.VipsOperation.Argument] = [:]
    ) -> Self {
        Self(name: name, arguments: arguments)
    }
}
