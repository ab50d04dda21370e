internal import CVips

// The effects of renditions. Each frame of an animation is changed by itself.
extension VipsImage {
    /// The image after the rotation and the flip of a rendition; it must be in memory if there are any.
    func turned(by rendition: Rendition) throws(VipsError) -> VipsImage {
        if rendition.rotate == nil && rendition.flip == nil { return self }
        return try mapFrames { frame throws(VipsError) in
            var frame = frame
            if let rotation = rendition.rotate { frame = try frame.turned(rotation.quarters) }
            if rendition.flip?.isHorizontal == true { frame = try frame.flipped(vertically: false) }
            if rendition.flip?.isVertical == true { frame = try frame.flipped(vertically: true) }
            return frame
        }
    }

    /// The image after the blur, the sharpening and the removal of colors of a rendition.
    func filtered(by rendition: Rendition) throws(VipsError) -> VipsImage {
        var image = self
        if let sigma = rendition.blur {
            image = try image.mapFrames { frame throws(VipsError) in
                try frame.premultiplied { colors throws(VipsError) in try colors.blurred(sigma) }.withStandardColors()
            }
        }
        if let sigma = rendition.sharpen {
            image = try image.mapFrames { frame throws(VipsError) in
                try frame.sharpened(sigma, flat: 0, jagged: 3).withStandardColors()
            }
        }
        return rendition.grayscale ? try image.grayscale() : image
    }

    /// The lightness of a colored image, with its transparency.
    package func grayscale() throws(VipsError) -> VipsImage {
        if bands <= 2 { return self }
        return try Self.make { megaton_vips_to_gray(pointer, $0) }.withStandardColors()
    }

    /// The image without transparency, on a background. A gray image becomes colored if the background is.
    func flattened(_ background: Color) throws(VipsError) -> VipsImage {
        guard hasAlpha else { return self }
        let base = try background.isGray ? self : inColor()
        return try base.flatten(background: background.channels(gray: base.bands <= 2))
    }

    /// The image on a larger canvas. The rest is transparent if the image has transparency, or else has the background.
    ///
    /// - Parameter place: The top left corner of the image, for its size.
    func surrounded(
        _ canvas: PixelSize,
        _ background: Color,
        _ place: (PixelSize) -> (left: Int, top: Int)
    ) throws(VipsError) -> VipsImage {
        let base = try hasAlpha || background.isGray ? self : inColor()
        let opaque = background.channels(gray: base.bands <= 2)
        let values = base.hasAlpha ? [Double](repeating: 0, count: base.bands) : opaque
        let (left, top) = place(size)
        return try base.mapFrames { frame throws(VipsError) in try frame.placed(left, top, on: canvas, values) }
    }
}

extension Color {
    /// Whether it has no hue.
    package var isGray: Bool { red == green && green == blue }
}
