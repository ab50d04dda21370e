public import Foundation

// `request.processors = [.resize(width: 320), .circle()]`

extension ImageProcessing where Self == ImageProcessors.Resize {
    /// Scales, and cuts where it is told to.
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
    /// Cuts out the largest circle.
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
    /// Blurs.
    public static func gaussianBlur(radius: Int = 8) -> Self { Self(radius: radius) }
}

extension ImageProcessing where Self == ImageProcessors.Anonymous {
    /// A closure that its id stands for.
    public static func process(
        id: String,
        _ closure: @escaping @Sendable (PlatformImage) -> PlatformImage?
    ) -> Self {
        Self(id: id, closure)
    }
}

extension ImageProcessing where Self == ImageProcessors.Crop {
    /// Cuts a part out, at a place or around what catches the eye.
    public static func crop(size: PixelSize, gravity: Rendition.Gravity = .centre) -> Self {
        Self(size: size, gravity: gravity)
    }

    /// Cuts a part out, around a point.
    public static func crop(size: PixelSize, focus: Rendition.FocalPoint) -> Self { Self(size: size, focus: focus) }
}

extension ImageProcessing where Self == ImageProcessors.Pad {
    /// Puts on a larger canvas.
    public static func pad(
        size: PixelSize,
        gravity: Rendition.Gravity = .centre,
        background: Color? = nil
    ) -> Self {
        Self(size: size, gravity: gravity, background: background)
    }
}

extension ImageProcessing where Self == ImageProcessors.Rotate {
    /// Turns clockwise.
    public static func rotate(degrees: Double, background: Color? = nil) -> Self {
        Self(degrees: degrees, background: background)
    }
}

extension ImageProcessing where Self == ImageProcessors.Flip {
    /// Mirrors.
    public static func flip(_ direction: ImageProcessors.Flip.Direction) -> Self { Self(direction) }
}

extension ImageProcessing where Self == ImageProcessors.Sharpen {
    /// Sharpens.
    public static func sharpen(sigma: Double = 0.5, flat: Double = 0, jagged: Double = 3) -> Self {
        Self(sigma: sigma, flat: flat, jagged: jagged)
    }
}

extension ImageProcessing where Self == ImageProcessors.Flatten {
    /// Puts on a colour.
    public static func flatten(background: Color = .white) -> Self { Self(background: background) }
}

extension ImageProcessing where Self == ImageProcessors.Watermark {
    /// Puts a picture on it.
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

extension ImageProcessing where Self == ImageProcessors.VipsOperation {
    /// An operation of libvips by its name.
    public static func vips(
        name: String,
        arguments: [String: ImageProcessors.VipsOperation.Argument] = [:]
    ) -> Self {
        Self(name: name, arguments: arguments)
    }
}
