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
    /// Of three components.
    let profile: ICCProfile?
    /// Whether a profile for red, green and blue is with a grey image, which has no use for it.
    let hasMisfit: Bool

    init?(_ data: Data) {
        guard let parts = data.withUnsafeBytes({ JPEGSegments($0) }), let frame = parts.frame else { return nil }
        size = frame.size
        isProgressive = frame.isProgressive || parts.hasSeveralScans
        components = frame.factors.count
        sampling = frame.sampling
        orientation = parts.orientation ?? 1
        guard !parts.profile.isEmpty else {
            (profile, hasMisfit) = (nil, false)
            return
        }
        // Of grey, or damaged, it is tried by libvips.
        guard let found = ICCProfile(parts.profile), found.isRGB else { return nil }
        hasMisfit = components == 1
        profile = hasMisfit ? nil : found
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
            planes: profile?.isSRGB ?? true ? sampling : nil,
            notes: hasMisfit ? [ProfileFit.note("it is for RGB, and the image is grey", as: "grey")] : []
        )
    }
}
