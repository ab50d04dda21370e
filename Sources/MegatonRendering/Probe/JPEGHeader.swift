internal import Foundation

/// Properties of a JPEG image, interpreted from its ``JPEGSegments``: size, sampling, orientation, and the profile that
/// applies (ITU-T T.81 annex B). Accepts only headers as cameras and common programs write them; for all others the
/// initializer returns nil and the caller asks libvips.
struct JPEGHeader {
    /// Pixels as stored.
    let size: PixelSize
    /// Whether it is progressive or has a scan for each component: either way all scans are read before the first
    /// sample is known.
    let isProgressive: Bool
    /// 1 for gray, 3 for Y, Cb and Cr.
    let components: Int
    /// Nil for rare sampling factors.
    let sampling: ChromaSampling?
    /// EXIF orientation, 1 to 8.
    let orientation: Int
    /// The profile of a color image.
    let profile: ICCProfile?
    /// Whether a gray image carries an RGB profile, which does not apply to it.
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
        // Gray profiles and damaged ones are left to libvips, which tries them out.
        guard let found = ICCProfile(parts.profile), found.isRGB else { return nil }
        hasMisfit = components == 1
        profile = hasMisfit ? nil : found
    }

    /// The same probe that libvips would return.
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
            notes: hasMisfit ? [ICCProfile.note("it is for RGB, and the image is gray", as: "gray")] : []
        )
    }
}
