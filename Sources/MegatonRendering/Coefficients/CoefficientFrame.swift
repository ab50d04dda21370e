/// The frame of a JPEG: its size and its components (ITU-T T.81 annex B.2.2).
struct CoefficientFrame {
    struct Component {
        let name: UInt8
        /// Blocks of a unit in a row and in a column.
        let across: Int
        let down: Int
        let quantization: Int
    }

    let width: Int
    let height: Int
    let components: [Component]
    let isProgressive: Bool

    /// Units in a row: each has all blocks that belong to the same pixels.
    var unitsAcross: Int { (width + 8 * components[0].across - 1) / (8 * components[0].across) }
    var unitsDown: Int { (height + 8 * components[0].down - 1) / (8 * components[0].down) }

    /// - Returns: nil if the frame is not of a usual size and sampling, in gray or YCbCr.
    init?(_ body: ArraySlice<UInt8>, isProgressive: Bool) {
        let bytes = body.map(Int.init)
        guard bytes.count >= 6, bytes[0] == 8 else { return nil }
        let count = bytes[5]
        guard count == 1 || count == 3, bytes.count == 6 + 3 * count else { return nil }
        self.isProgressive = isProgressive
        (height, width) = (bytes[1] << 8 | bytes[2], bytes[3] << 8 | bytes[4])
        components = (0..<count).map { index in
            let (name, factors, table) = (bytes[6 + 3 * index], bytes[7 + 3 * index], bytes[8 + 3 * index])
            return Component(name: UInt8(name), across: factors >> 4, down: factors & 15, quantization: table)
        }
        // The longest side that libjpeg accepts.
        guard (1...65_500).contains(width), (1...65_500).contains(height),
            components.allSatisfy({ $0.quantization < 4 }), Set(components.map(\.name)).count == count,
            components.dropFirst().allSatisfy({ $0.across == 1 && $0.down == 1 })
        else { return nil }
        let factors = (components[0].across, components[0].down)
        guard factors == (1, 1) || count == 3 && (factors == (2, 1) || factors == (2, 2)) else { return nil }
    }

    /// Whether the frame has this size, in pixels, and this sampling.
    func matches(_ size: PixelSize, _ sampling: ChromaSampling) -> Bool {
        width == size.width && height == size.height && components.count == sampling.planes
            && components[0].across == sampling.horizontal && components[0].down == sampling.vertical
    }

    /// The blocks of a component that belong to pixels, without those that only fill up the last units: these a scan of
    /// one component has (annex A.2.2).
    func blocks(of component: Int) -> (across: Int, down: Int) {
        let (most, own) = (components[0], components[component])
        let columns = (width * own.across + most.across - 1) / most.across
        let rows = (height * own.down + most.down - 1) / most.down
        return ((columns + 7) / 8, (rows + 7) / 8)
    }
}
