internal import CTurboJPEG
internal import Foundation
import Synchronization

/// Decodes planes with TurboJPEG, and small ones of usual files with `LowCoefficientReader`, which is reused for the
/// next image.
///
/// `@unchecked Sendable`: used by one thread at a time, which takes it from `TurboJPEGCodecs` and puts it back.
final class TurboJPEGCodec: @unchecked Sendable {
    private var reader = LowCoefficientReader()

    /// Decodes the planes of a JPEG, each shrunk by the same factor.
    ///
    /// TurboJPEG cannot be interrupted; the limits for pixels and scans bound the time.
    ///
    /// Each call uses a new decompressor: a reused one keeps the tables of the last image, and would apply them to an
    /// image without tables.
    ///
    /// - Parameter isWhole: Whether a warning counts as damage; otherwise missing parts are gray.
    /// - Returns: nil if the data is damaged, or does not match its header.
    func decode(
        _ data: Data,
        _ probe: ImageProbe,
        shrink: Int,
        isWhole: Bool = true
    ) -> PlanarImage? {
        decode(probe, shrink: shrink) { planes, sampling, size in
            isWhole && !probe.isProgressive
                && readLowCoefficients(data, probe, sampling, shrink: Self.factor(shrink, probe), to: planes)
                || data.withUnsafeBytes { Self.decode($0, probe, sampling, size, isWhole: isWhole, to: planes) }
        }
    }

    /// Decodes the planes of a progressive JPEG with the scans that a quarter or an eighth of its size needs.
    ///
    /// - Parameter scans: the file up to the end of these scans, or more.
    /// - Returns: nil if the file is not usual or the scans are damaged, or for another factor.
    func decode(scans: Data, _ probe: ImageProbe, shrink: Int) -> PlanarImage? {
        decode(probe, shrink: shrink) { planes, sampling, _ in
            readLowCoefficients(scans, probe, sampling, shrink: Self.factor(shrink, probe), to: planes)
        }
    }

    /// For tiny images TurboJPEG would choose another factor that leads to the same size.
    private static func factor(_ shrink: Int, _ probe: ImageProbe) -> Int {
        min(probe.width, probe.height) < 16 ? 1 : shrink
    }

    private func decode(
        _ probe: ImageProbe,
        shrink: Int,
        _ write: ([Plane], ChromaSampling, PixelSize) -> Bool
    ) -> PlanarImage? {
        guard let sampling = probe.planes else { return nil }
        let shrink = Self.factor(shrink, probe)
        let size = PixelSize(
            width: (probe.width + shrink - 1) / shrink,
            height: (probe.height + shrink - 1) / shrink
        )
        guard let planes = Self.planes(size, sampling), write(planes, sampling, size) else { return nil }
        return PlanarImage(
            width: Double(probe.width) / Double(shrink),
            height: Double(probe.height) / Double(shrink),
            sampling: sampling,
            planes: planes
        )
    }

    /// - Returns: false if the image is not to be shrunk by four or eight, or its file is not usual.
    private func readLowCoefficients(
        _ data: Data,
        _ probe: ImageProbe,
        _ sampling: ChromaSampling,
        shrink: Int,
        to planes: [Plane]
    ) -> Bool {
        // The reader has a copy of the data and of the planes, and four values of each block of a progressive image:
        // `RenderCost` has no sum of its own for these.
        let copies = data.count + planes.reduce(0) { $0 + $1.stride * $1.height } * (probe.isProgressive ? 3 : 1)
        let factor = probe.isProgressive ? RenderPlan.progressiveJPEGFactor : RenderPlan.baselineJPEGFactor
        guard shrink == 4 || shrink == 8,
            Double(copies) <= factor * Double(probe.width * probe.height * probe.bands)
        else { return false }
        defer { reader.trim() }
        let size = PixelSize(width: probe.width, height: probe.height)
        let parts =
            switch (shrink, probe.isProgressive) {
            case (4, false): reader.read(data, of: size, sampling, as: QuarterBlock.self)
            case (4, true): reader.readProgressive(data, of: size, sampling, .quarter, as: QuarterBlock.self)
            case (_, false): reader.read(data, of: size, sampling, as: MeanBlock.self)
            case (_, true): reader.readProgressive(data, of: size, sampling, .eighth, as: MeanBlock.self)
            }
        guard let parts, parts.count == planes.count else { return false }
        for (plane, part) in zip(planes, parts) {
            guard part.stride >= plane.width, part.rows >= plane.height else { return false }
            plane.copy(reader.output, from: part.start, stride: part.stride)
        }
        return true
    }

    private static func decode(
        _ data: UnsafeRawBufferPointer,
        _ probe: ImageProbe,
        _ sampling: ChromaSampling,
        _ size: PixelSize,
        isWhole: Bool,
        to planes: [Plane]
    ) -> Bool {
        guard let bytes = data.assumingMemoryBound(to: UInt8.self).baseAddress else { return false }
        guard let decompressor = tjInitDecompress() else { return false }
        defer { tjDestroy(decompressor) }
        var (width, height, samples, colors): (Int32, Int32, Int32, Int32) = (0, 0, 0, 0)
        let isRead = tjDecompressHeader3(
            decompressor,
            bytes,
            UInt(data.count),
            &width,
            &height,
            &samples,
            &colors
        )
        let expected = sampling == .gray ? TJCS_GRAY : TJCS_YCbCr
        guard isRead == 0, width == probe.width, height == probe.height, samples == sampling.code,
            colors == Int32(expected.rawValue)
        else { return false }
        var pointers: [UnsafeMutablePointer<UInt8>?] = planes.map(\.bytes)
        var strides = planes.map { Int32($0.stride) }
        let isDecoded = tjDecompressToYUVPlanes(
            decompressor,
            bytes,
            UInt(data.count),
            &pointers,
            Int32(size.width),
            &strides,
            Int32(size.height),
            TJFLAG_LIMITSCANS | (isWhole ? TJFLAG_STOPONWARNING : 0)
        )
        return isDecoded == 0 || (!isWhole && tjGetErrorCode(decompressor) == Int32(TJERR_WARNING.rawValue))
    }

    private static func planes(_ size: PixelSize, _ sampling: ChromaSampling) -> [Plane]? {
        var planes: [Plane] = []
        for index in 0..<Int32(sampling.planes) {
            let width = tjPlaneWidth(index, Int32(size.width), sampling.code)
            let height = tjPlaneHeight(index, Int32(size.height), sampling.code)
            guard width > 0, height > 0, let plane = Plane(width: Int(width), height: Int(height)) else { return nil }
            planes.append(plane)
        }
        return planes
    }
}

extension ChromaSampling {
    /// The corresponding constant of TurboJPEG.
    fileprivate var code: Int32 {
        switch self {
        case .gray: Int32(TJSAMP_GRAY.rawValue)
        case .s444: Int32(TJSAMP_444.rawValue)
        case .s422: Int32(TJSAMP_422.rawValue)
        case .s420: Int32(TJSAMP_420.rawValue)
        }
    }
}

/// A pool of idle codecs. Grows to the largest number of threads that have used one at the same time.
final class TurboJPEGCodecs: Sendable {
    private let idle = Mutex<[TurboJPEGCodec]>([])

    /// - Returns: The body's result.
    func withCodec<Value, Failure: Error>(_ body: (TurboJPEGCodec) throws(Failure) -> Value) throws(Failure) -> Value {
        let codec = idle.withLock { $0.popLast() } ?? TurboJPEGCodec()
        defer { idle.withLock { $0.append(codec) } }
        return try body(codec)
    }

    /// Decodes what a pass needs of a JPEG, shrunk by a fraction.
    ///
    /// - Returns: as ``TurboJPEGCodec/decode(_:_:shrink:isWhole:)``.
    func decode(
        _ pass: RenderPlan.Pass,
        of plan: RenderPlan,
        from data: Data,
        isWhole: Bool = true
    ) -> PlanarImage? {
        let (probe, shrink) = (plan.probe, plan.shrink(pass))
        return withCodec { codec in
            guard isWhole, let scans = plan.neededScans(pass, of: data) else {
                return codec.decode(data, probe, shrink: shrink, isWhole: isWhole)
            }
            return codec.decode(scans: scans, probe, shrink: shrink)
                ?? codec.decode(plan.neededFile(pass, of: data) ?? data, probe, shrink: shrink)
        }
    }
}
