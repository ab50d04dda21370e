internal import Foundation

/// What the segments before a JPEG's first scan say (ITU-T T.81 annex B). Only of headers as cameras and programs write
/// them: of all others there is none, and libvips is asked.
struct JPEGHeader {
    /// Pixels as stored.
    let size: PixelSize
    /// Progressive, or with a scan for each component: it is read as a whole before a sample of it is known.
    let isProgressive: Bool
    /// 1 for grey, 3 for Y, Cb and Cr.
    let components: Int
    /// Nil for a sampling that is rare.
    let sampling: ChromaSampling?
    /// EXIF's, 1 to 8.
    let orientation: Int
    let profile: ICCProfile?

    init?(_ data: Data) {
        guard let parts = data.withUnsafeBytes({ JPEGSegments($0) }), let frame = parts.frame else { return nil }
        size = frame.size
        isProgressive = frame.isProgressive || parts.hasSeveralScans
        components = frame.factors.count
        sampling = frame.sampling
        orientation = parts.orientation ?? 1
        if parts.profile.isEmpty {
            profile = nil
        } else {
            // Of another kind than the picture, it is libvips that knows what to do.
            guard let found = ICCProfile(parts.profile), found.isRGB || components == 1 else { return nil }
            profile = found
        }
    }

    /// As libvips would tell it.
    var probe: ImageProbe {
        ImageProbe(
            type: .jpeg,
            width: size.width,
            height: size.height,
            bands: components,
            frames: 1,
            orientation: orientation,
            isProgressive: isProgressive,
            hasRGBProfile: components == 3 && profile != nil,
            planes: profile?.isSRGB ?? true ? sampling : nil
        )
    }
}
