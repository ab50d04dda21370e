internal import CPlanes
internal import Foundation

/// How the samples of planes are colors.
enum PlanarColors {
    /// Y, Cb and Cr, or Y alone, in the full range of JPEG (JFIF 1.02).
    case full
    /// Y, Cb and Cr in the range of WebP: that of video, BT.601 (RFC 6386 section 9.2).
    case video
    /// Gray or RGB, with or without alpha, which colors are multiplied by. All planes have one size.
    case channels
}

/// Tables that move samples from one range to the other.
enum SampleRange {
    static let videoLuma = (0...255).map { UInt8((16 + Double($0) * 219 / 255).rounded()) }
    static let videoColor = (0...255).map { UInt8((128 + (Double($0) - 128) * 224 / 255).rounded()) }
    static let fullLuma = (0...255).map { clamped((Double($0) - 16) * 255 / 219) }
    static let fullColor = (0...255).map { clamped(128 + (Double($0) - 128) * 255 / 224) }

    private static func clamped(_ value: Double) -> UInt8 { UInt8(min(max(0, value.rounded()), 255)) }
}

extension PlanarImage {
    /// The same image for an encoder that wants Y, Cb and Cr, or Y alone.
    ///
    /// - Parameters:
    ///   - range: `full` or `video`.
    ///   - background: behind transparent pixels.
    ///   - sampling: that of the result if the image has channels: `gray`, `s444` or `s420`. Others keep theirs, except
    ///     that `s444` becomes `s420`: a search for the quality that fits may go below the one from which it is `s444`.
    /// - Returns: nil if there is no memory.
    func converted(to range: PlanarColors, _ background: Color, _ sampling: ChromaSampling) -> PlanarImage? {
        if colors == .channels {
            return withoutChannels(background, sampling)?.converted(to: range, background, sampling)
        }
        if self.sampling == .s444 && sampling == .s420 {
            return withHalvedChroma()?.converted(to: range, background, sampling)
        }
        if colors == range { return self }
        let (luma, color) =
            range == .video
            ? (SampleRange.videoLuma, SampleRange.videoColor) : (SampleRange.fullLuma, SampleRange.fullColor)
        var mapped: [Plane] = []
        for (index, plane) in planes.enumerated() {
            guard let plane = plane.mapped(index == 0 ? luma : color) else { return nil }
            mapped.append(plane)
        }
        return PlanarImage(width: width, height: height, sampling: self.sampling, planes: mapped, colors: range)
    }

    /// The planes of the image stay as they are: the search may go up again.
    private func withHalvedChroma() -> PlanarImage? {
        let halves = planes[1...].compactMap { $0.halved() }
        guard halves.count == 2 else { return nil }
        return PlanarImage(width: width, height: height, sampling: .s420, planes: [planes[0]] + halves, colors: colors)
    }

    /// Whether the image is gray on a background.
    func isGray(on background: Color) -> Bool {
        planes.count == 1 || (planes.count == 2 && background.isGray)
    }

    /// Y, Cb and Cr in the full range. The planes of the image stay as they are: they may be a level of a pyramid.
    private func withoutChannels(_ background: Color, _ sampling: ChromaSampling) -> PlanarImage? {
        let hasAlpha = planes.count % 2 == 0
        let isGray = sampling == .gray
        let count = isGray ? 1 : 3
        // Gray on a background of another color has three channels that are equal without it.
        var made = (0..<count).compactMap { planes[planes.count <= 2 ? 0 : $0].copy() }
        guard made.count == count else { return nil }
        let behind = background.channels(gray: isGray).map { UInt8($0) }
        for row in 0..<made[0].height {
            let rows = made.map { $0.bytes + row * $0.stride }
            let width = Int32(made[0].width)
            if hasAlpha, let alpha = planes.last {
                for (colors, behind) in zip(rows, behind) {
                    megaton_flatten_row(colors, alpha.bytes + row * alpha.stride, behind, width)
                }
            }
            if !isGray { megaton_ycc_row(rows[0], rows[1], rows[2], width) }
        }
        if sampling == .s420 {
            let halves = made[1...].compactMap { $0.halved() }
            guard halves.count == 2 else { return nil }
            made.replaceSubrange(1..., with: halves)
        }
        return PlanarImage(width: width, height: height, sampling: sampling, planes: made)
    }
}

extension Plane {
    /// The same samples in memory of their own.
    fileprivate func copy() -> Plane? {
        guard let result = Plane(width: width, height: height) else { return nil }
        memcpy(result.bytes, bytes, stride * height)
        return result
    }

    /// The averages of two by two samples. The last row or column of an odd number counts twice.
    fileprivate func halved() -> Plane? {
        guard let result = Plane(width: (width + 1) / 2, height: (height + 1) / 2) else { return nil }
        for row in 0..<result.height {
            let upper = bytes + 2 * row * stride
            let lower = 2 * row + 1 < height ? upper + stride : upper
            megaton_halve_rows(upper, lower, result.bytes + row * result.stride, Int32(width))
        }
        return result
    }
}
