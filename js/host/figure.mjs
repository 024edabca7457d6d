// The plain hosted figure: nothing beyond the hosting layer.
import { hostWidget } from "./host.mjs";

export default hostWidget();
