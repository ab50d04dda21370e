internal import CCodecs
internal import CWebP
internal import Foundation

/// Decodes JPEGs, PNGs and WebP images to planes, for a pass that cannot begin with the planes of a JPEG. If libvips
/// has to make its results, the planes are scaled, and libvips gets pixels at the base of the pass. libvips would
/// decode PNGs with zlib, which is slower than libdeflate, and convert all decoded pixels to RGB before it scales them.
///
/// Damage, and all that is unusual, is left to libvips.
struct PlanarPixels: Sendable {
    let codecs: TurboJPEGCodecs
    let axes: PlaneAxes

    /// The planes of the whole source, as stored. The caller has found out that no needed scan of a JPEG is missing.
    ///
    /// The decoders cannot be interrupted; the limits of pixels and scans bound their time.
    ///
    /// - Returns: nil if the source is damaged or of a kind that is left to libvips, or if there is no memory.
    func decode(_ pass: RenderPlan.Pass, of plan: RenderPlan, from data: Data) -> PlanarImage? {
        guard plan.hasPlanarPixels(pass) else { return nil }
        return switch plan.probe.type {
        case .jpeg: codecs.decode(pass, of: plan, from: data)
        case .png: data.withUnsafeBytes { Self.decodePNG($0, plan.probe) }
        case .webp: data.withUnsafeBytes { Self.decodeWebP($0, plan, pass) }
        default: nil
        }
    }

    /// Scales decoded planes to the base of a pass, upright.
    ///
    /// - Returns: nil if there is no memory.
    func base(of pass: RenderPlan.Pass, _ plan: RenderPlan, from decoded: PlanarImage) -> PixelBuffer? {
        let orientation = EXIFOrientation(plan.probe.orientation)
        var scaled: [Plane] = []
        for (index, plane) in decoded.planes.enumerated() {
            let (across, down) = index == 0 ? (1, 1) : (decoded.sampling.horizontal, decoded.sampling.vertical)
            let covered = (width: decoded.width / Double(across), height: decoded.height / Double(down))
            // Decoded blocks have samples beyond the edge of the image.
            let source = PixelSize(
                width: min(plane.width, max(1, Int(covered.width.rounded()))),
                height: min(plane.height, max(1, Int(covered.height.rounded())))
            )
            let geometry = PlaneGeometry(source, covered: covered, to: orientation.turned(pass.base))
            guard let result = axes.scale(plane, geometry)?.turned(orientation) else { return nil }
            scaled.append(result)
        }
        return switch decoded.colors {
        case .channels: PixelBuffer(joining: scaled)
        case .full where scaled.count == 1: PixelBuffer(joining: scaled)
        case .full: PixelBuffer(converting: scaled, .full)
        case .video: PixelBuffer(converting: scaled, .video)
        }
    }

    private static func decodePNG(_ bytes: UnsafeRawBufferPointer, _ probe: ImageProbe) -> PlanarImage? {
        guard let chunks = PNGChunks(bytes), chunks.size == PixelSize(width: probe.width, height: probe.height),
            chunks.rowsLength <= RenderPlan.planarPixelLimit + probe.height, let planes = planes(probe, probe.bands),
            // `megaton_png_rows` reads four bytes behind them.
            let memory = malloc(chunks.rowsLength + 4)
        else { return nil }
        defer { free(memory) }
        let rows = UnsafeMutableRawBufferPointer(start: memory, count: chunks.rowsLength)
        guard chunks.inflate(bytes, into: rows), write(rows, of: chunks, probe, to: planes) else { return nil }
        return PlanarImage(planes, .channels, probe)
    }

    /// Undoes the filters of inflated rows.
    ///
    /// - Returns: Whether that succeeded.
    private static func write(
        _ rows: UnsafeMutableRawBufferPointer,
        of chunks: PNGChunks,
        _ probe: ImageProbe,
        to planes: [Plane]
    ) -> Bool {
        guard let start = rows.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return false }
        let (width, height, bands) = (Int32(probe.width), Int32(probe.height), Int32(probe.bands))
        let hasAlpha: Int32 = probe.hasAlpha ? 1 : 0
        let pointers: [UnsafeMutablePointer<UInt8>?] = planes.map(\.bytes)
        if chunks.isPlain {
            guard chunks.channels == probe.bands else { return false }
            return megaton_png_rows(start, width, height, bands, hasAlpha, pointers, planes[0].stride) == 0
        }
        return chunks.beginning.withUnsafeBufferPointer { beginning in
            guard let header = beginning.baseAddress else { return false }
            let (length, stride) = (beginning.count, planes[0].stride)
            return megaton_png_planes(
                header,
                length,
                start,
                rows.count,
                width,
                height,
                bands,
                hasAlpha,
                pointers,
                stride
            ) == 0
        }
    }

    private static func decodeWebP(
        _ bytes: UnsafeRawBufferPointer,
        _ plan: RenderPlan,
        _ pass: RenderPlan.Pass
    ) -> PlanarImage? {
        let probe = plan.probe
        // libwebp itself leaves out the filter of block edges for images that it scales below three quarters, and so
        // does libvips, which lets it scale (`WebPIoInitFromOptions`).
        let skipsFilter = pass.qualityProfile != .faithful && plan.scale(pass) > 4.0 / 3
        guard let start = bytes.assumingMemoryBound(to: UInt8.self).baseAddress,
            WebPChunks(bytes)?.hasPlainColors == true
        else { return nil }
        let (width, height) = (Int32(probe.width), Int32(probe.height))
        if !probe.hasAlpha, let luma = Plane(width: probe.width, height: probe.height),
            let blue = Plane(width: (probe.width + 1) / 2, height: (probe.height + 1) / 2),
            let red = Plane(width: blue.width, height: blue.height)
        {
            let code = megaton_webp_decode_planes(
                start,
                bytes.count,
                width,
                height,
                skipsFilter ? 1 : 0,
                luma.bytes,
                Int32(luma.stride),
                blue.bytes,
                red.bytes,
                Int32(blue.stride)
            )
            if code == 0 { return PlanarImage([luma, blue, red], .video, probe, .s420) }
            // Another kind of image; all other codes are about damage.
            guard code == -1 else { return nil }
        }
        let rowLength = probe.width * probe.bands
        guard let planes = planes(probe, probe.bands), let memory = malloc(rowLength * probe.height) else { return nil }
        defer { free(memory) }
        let pixels = memory.assumingMemoryBound(to: UInt8.self)
        guard megaton_webp_decode_pixels(start, bytes.count, width, height, Int32(probe.bands), pixels) == 0 else {
            return nil
        }
        let pointers: [UnsafeMutablePointer<UInt8>?] = planes.map(\.bytes)
        for row in 0..<probe.height {
            megaton_split_row(pixels + row * rowLength, width, Int32(probe.bands), pointers, row * planes[0].stride)
        }
        return PlanarImage(planes, .channels, probe)
    }

    private static func planes(_ probe: ImageProbe, _ count: Int) -> [Plane]? {
        var planes: [Plane] = []
        for _ in 0..<count {
            guard let plane = Plane(width: probe.width, height: probe.height) else { return nil }
            planes.append(plane)
        }
        return planes
    }
}

extension PlanarImage {
    fileprivate init(
        _ planes: [Plane],
        _ colors: PlanarColors,
        _ probe: ImageProbe,
        _ sampling: ChromaSampling = .s444
    ) {
        let (width, height) = (Double(probe.width), Double(probe.height))
        self.init(width: width, height: height, sampling: sampling, planes: planes, colors: colors)
    }
}

/// The parts of a WebP file that say how its colors are meant (WebP Container Specification, RFC 9649 section 2).
private struct WebPChunks {
    /// Whether colors need no conversion: there is no profile, or it is sRGB.
    private(set) var hasPlainColors = true

    /// - Returns: nil if this is no WebP file, or if a chunk is cut off.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 12, bytes.starts(with: "RIFF".utf8), bytes[8..<12].elementsEqual("WEBP".utf8) else {
            return nil
        }
        // `HeaderBounds` limits their number.
        for chunk in ImageChunks.riff(bytes) {
            guard chunk.content.upperBound <= bytes.count else { return nil }
            if chunk.name == "ICCP" {
                let profile = ICCProfile([UInt8](bytes[chunk.content]))
                hasPlainColors = hasPlainColors && (profile?.isSRGB ?? false)
            }
        }
    }
}
